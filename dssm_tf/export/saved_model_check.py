"""Checks that a SavedModel can only compute, before TensorFlow loads it.

TensorFlow's operations can read and write any file of the process, and functions of some objects
run while a model is loaded. So `saved_model.pb` is parsed as a message. It may contain only
variables, functions, and operations of `OPERATIONS`, which compute. The two functions that
TensorFlow writes for checkpoints may also contain `CHECKPOINT_OPERATIONS`; no other function may
call them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError

_USED = """
Abs Add AddV2 All Any AsString Assert BiasAdd BroadcastTo Cast ConcatV2 Const Cumsum Equal
ExpandDims Fill FloorDiv FloorMod GatherV2 Greater GreaterEqual Identity If Less LessEqual
LogicalAnd LogicalNot LogicalOr LowerBound MatMul Max Maximum Minimum Mul Neg NoOp NotEqual Pack
Pad PadV2 Placeholder Prod Range ReadVariableOp RealDiv Relu Reshape ReverseV2 Roll Rsqrt
ScatterNd SelectV2 Shape Sigmoid Size Softplus Split Square Squeeze StatefulPartitionedCall
StatelessIf StaticRegexFullMatch StaticRegexReplace StridedSlice StringJoin StringSplitV2
StringStrip StringToHashBucketFast StringToNumber Sub Substr Sum Tanh TensorListFromTensor
TensorListGetItem TensorListReserve TensorListSetItem TensorListStack TensorScatterUpdate Tile
TopKV2 Transpose UnicodeDecode UnicodeEncode UnicodeTranscode Unique Unpack UnsortedSegmentSum
UpperBound VarHandleOp Where While ZerosLike
"""
_OF_OTHER_TOWERS = """
AddN ArgMax ArgMin AvgPool BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpaceND Bitcast Ceil
ClipByValue Conv2D Cos Cumprod DepthwiseConv2dNative DivNoNan Einsum Elu EmptyTensorList
EnsureShape Erf Erfc Exp Expm1 Floor FusedBatchNormV3 GatherNd IdentityN Inv InvertPermutation
IsFinite IsInf IsNan LeakyRelu LinSpace Log Log1p LogSoftmax MatrixBandPart MaxPool Mean Min Mod
MulNoNan OneHot OnesLike PartitionedCall Pow PreventGradient Rank Reciprocal Relu6
ReverseSequence Rint Round SegmentSum Select Selu Sign Sin Slice Softmax Softsign SpaceToBatchND
SplitV Sqrt SquaredDifference StatelessWhile StopGradient TensorListConcatV2 TensorListLength
TensorListPopBack TensorListPushBack TensorScatterAdd TensorStridedSliceUpdate Tan Xdivy Xlogy
"""
OPERATIONS = frozenset(_USED.split() + _OF_OTHER_TOWERS.split())
"""The operations that exports of this package use, and others that custom towers may use."""

CHECKPOINT_OPERATIONS = frozenset(
    {
        "AssignVariableOp", "DisableCopyOnRead", "MergeV2Checkpoints", "RestoreV2", "SaveV2",
        "Select", "ShardedFilename",
    }
)  # fmt: skip
_CHECKPOINT_FUNCTIONS = ("__inference__traced_save", "__inference__traced_restore")
_CONTAINERS = {"_generic_user_object", "signature_map", "trackable_list_wrapper"}
_HINT = "Its file is not one that `dssm export` writes: do not open it with any other program."


def check_saved_model(version: Path) -> None:
    """Checks a SavedModel without loading it.

    Args:
        version: the directory of a version.

    Raises:
        UserError: the model can do more than compute with its variables, or is damaged.
    """
    path = version / "saved_model.pb"
    # TensorFlow reads these instead of, or without, `saved_model.pb`.
    for other in ("saved_model.cpb", "saved_model.pbtxt"):
        if (version / other).exists():
            raise UserError(f"{version / other} is not a file of an export. {_HINT}")
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}). {_HINT}") from None
    problem = _problem(saved)
    if problem is not None:
        raise UserError(f"{path}: {problem}. {_HINT}")


def _problem(saved: Any) -> str | None:
    """Describes a part of a SavedModel message that no export contains; None if there is none."""
    if len(saved.meta_graphs) != 1 or not saved.meta_graphs[0].HasField("object_graph_def"):
        # Without objects, TensorFlow would run the initialization operation of the graph.
        return "expected one graph with objects"
    meta = saved.meta_graphs[0]
    return _object_problem(meta.object_graph_def) or _graph_problem(meta)


def _object_problem(objects: Any) -> str | None:
    """Describes an object that is no variable, function or container, or runs code on load."""
    for node in objects.nodes:
        kind = node.WhichOneof("kind")
        if kind == "user_object":
            kind = node.user_object.identifier
        elif kind == "bare_concrete_function":
            name, kind = node.bare_concrete_function.concrete_function_name, ""
            # The names of `concrete_functions` are checked below.
            if name not in objects.concrete_functions:
                return f"it has the signature {name[:60]!r} without a function"
        elif kind == "variable":
            kind = ""
        if kind and kind not in _CONTAINERS:
            return f"it has an object of kind {kind[:60]!r}"
        if kind is None or node.saveable_objects or node.registered_name or node.registered_saver:
            return "it has an object with functions of its own"
    for name in objects.concrete_functions:
        if name.startswith(_CHECKPOINT_FUNCTIONS):
            return f"the function {name[:60]!r} can be called"
    return None


def _graph_problem(meta: Any) -> str | None:
    """Describes an operation that is not allowed in its function; None if there is none."""
    functions = meta.graph_def.library.function
    if meta.graph_def.library.gradient or meta.graph_def.library.registered_gradients:
        return "it has gradients"
    checkpoint_functions = {
        function.signature.name
        for function in functions
        if function.signature.name.startswith(_CHECKPOINT_FUNCTIONS)
    }
    graphs = [(OPERATIONS, meta.graph_def.node)]
    for function in functions:
        allowed = OPERATIONS
        if function.signature.name in checkpoint_functions:
            allowed = OPERATIONS | CHECKPOINT_OPERATIONS
        graphs.append((allowed, function.node_def))
        called = set(_called_names(function.node_def)) | set(_called_names([function]))
        if forbidden := called & checkpoint_functions:
            return f"a function calls {min(forbidden)[:60]!r}"
    for allowed, nodes in graphs:
        for node in nodes:
            if node.op not in allowed:
                return f"it contains the operation {node.op[:60]!r}"
    return None


def _called_names(nodes: Iterable[Any]) -> Iterator[str]:
    """The names of operations, and of the functions in their attributes."""
    for node in nodes:
        yield getattr(node, "op", "")
        for value in node.attr.values():
            yield value.func.name
            for function in value.list.func:
                yield function.name
