"""The shipped models in PyTorch, for comparisons of speed; needs torch.

A `TorchModel` has the weights, the inputs and the scores of a `Siamese` model of this package
(`tests/benchmarks/test_torch_models.py`). It runs in torch's default eager mode. `CudnnLSTM` is the
tower `lstm` with `torch.nn.LSTM`, which has no peepholes and one more matrix, for its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from dssm_tf.config import Config
from dssm_tf.model.siamese import Siamese
from dssm_tf.scores.maxsim import IDF_DIVISOR, SCALAR_RATE

_EPSILON = 1e-12
Texts = Mapping[str, Any]


class TorchModel(torch.nn.Module):
    """Scores of each query and its candidates, as those of a `Siamese` model.

    Args:
        model: the model, with shared towers. Its weights are copied.
        config: its configuration.
    """

    def __init__(self, model: Siamese, config: Config) -> None:
        super().__init__()
        self.tower, self.score = config.tower, config.score
        self.names = [variable.path.partition("/")[2] for variable in model.weights]
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.from_numpy(np.array(variable))) for variable in model.weights
        )

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Scores float32 `(batch, columns)`."""
        if self.score.name == "maxsim":
            queries, titles = (
                {**inputs[side], "word_vectors": normalize(self._words(inputs[side]))}
                for side in ("query", "titles")
            )
            return with_candidates(self._maxsim(queries, titles), inputs)
        vectors = normalize(self._encode(inputs["texts"]))
        queries, titles = vectors.tensor_split([len(inputs["candidates"])])
        return with_candidates((queries @ titles.T).float(), inputs)

    def _weight(self, *parts: str) -> torch.Tensor:
        """The only weight whose path contains all parts."""
        (index,) = (
            index for index, name in enumerate(self.names) if all(part in name for part in parts)
        )
        return self.weights[index]

    def _words(self, texts: Texts) -> torch.Tensor:
        """The hashed words, `(distinct_words, units)`."""
        kernel = self._weight("hashing/kernel")
        words = torch.cat(
            [
                functional.embedding_bag(ids, kernel, mode="sum", padding_idx=0)
                for ids in as_tuple(texts["word_ngrams"])
            ]
        )
        return functional.dropout(words, self.tower.dropout, self.training)

    def _encode(self, texts: Texts) -> torch.Tensor:
        """Semantic vectors `(texts, dimension)`."""
        words = self._words(texts)
        encode = {"dssm": self._dssm, "clsm": self._clsm}.get(self.tower.name, self._recurrent)
        groups = [encode(words[tokens.long()], tokens != 0) for tokens in as_tuple(texts["tokens"])]
        vectors = torch.cat(groups)
        return vectors[texts["rows"].long()] if "rows" in texts else vectors

    def _dssm(self, words: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        del present
        return torch.tanh(words.sum(1) + self._weight("query_tower/bias"))

    def _clsm(self, words: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        padding_word = self._weight("padding_word")
        middle = self.tower.window // 2
        blocks = words.chunk(self.tower.window, dim=-1)
        total, outside = blocks[middle], []
        for shift in (*range(-middle, 0), *range(1, middle + 1)):
            total = total + shifted(blocks[middle + shift], shift)
            outside.append(~shifted(present[..., None], shift)[..., 0])
        total = total + torch.stack(outside, dim=-1).to(words.dtype) @ padding_word
        total = total.masked_fill(~present[..., None], -torch.inf)
        return torch.tanh(torch.tanh(total.amax(1)) @ self._weight("semantic_1"))

    def _recurrent(self, words: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        names = ("left_to_right", "right_to_left") if self.tower.name == "bilstm" else ("recurr",)
        outputs = []
        for name, inputs in zip(names, words.chunk(len(names), dim=-1), strict=True):
            steps = range(inputs.shape[1])
            order = reversed(steps) if name == "right_to_left" else steps
            matrix, bias = self._weight(name, "recurrent_kernel"), self._weight(name, "bias")
            y = c = inputs.new_zeros(len(inputs), matrix.shape[0])
            for step in order:
                is_word = present[:, step, None]
                net = inputs[:, step] + y @ matrix + bias
                next_y, next_c = self._cell(name, net, c)
                y, c = torch.where(is_word, next_y, y), torch.where(is_word, next_c, c)
            outputs.append(y)
        return torch.cat(outputs, dim=-1)

    def _cell(
        self, name: str, net: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The output and the cell state after a word; `net` is the input of all gates."""
        if self.tower.name == "rnn":
            return torch.tanh(net), c
        blocks = net.chunk(4 if self.tower.forget_gate else 3, dim=-1)
        net_o, net_i, net_g = blocks[0], blocks[-2], blocks[-1]
        peephole = self._weight(name, "peephole_kernel") if self.tower.peepholes else None
        if peephole is not None:
            net_i = net_i + peephole[-1] * c
        old_state = c
        if self.tower.forget_gate:
            net_f = blocks[1] if peephole is None else blocks[1] + peephole[1] * c
            old_state = torch.sigmoid(net_f) * c
        c = old_state + torch.sigmoid(net_i) * torch.tanh(net_g)
        if peephole is not None:
            net_o = net_o + peephole[0] * c
        return torch.sigmoid(net_o) * torch.tanh(c), c

    def _maxsim(self, queries: Texts, titles: Texts) -> torch.Tensor:
        """Scores `(queries, titles)`; see `dssm_tf.scores.maxsim`."""
        cosines = queries["word_vectors"] @ titles["word_vectors"].T
        query_words, title_words = (torch.arange(n, device=cosines.device) for n in cosines.shape)
        pair_weights = self._pair_weights(0, queries), self._pair_weights(1, titles)
        of_query, of_title = shared_pairs(queries, titles, *pair_weights)
        best = most_similar_words(cosines.detach().T, titles)
        similarities = self._similarities(cosines[query_words, best])
        scores = self._side(0, queries, pair_weights[0], similarities, of_query)
        if self.score.sides == "query":
            return scores
        best = most_similar_words(cosines.detach(), queries)
        similarities = self._similarities(cosines[best, title_words])
        return scores + self._side(1, titles, pair_weights[1], similarities, of_title.T).T

    def _similarities(self, cosines: torch.Tensor) -> torch.Tensor:
        return functional.relu(cosines - self.score.threshold) / (1 - self.score.threshold)

    def _side(
        self,
        side: int,
        texts: Texts,
        pair_weights: torch.Tensor,
        similarities: torch.Tensor,
        shared: torch.Tensor,
    ) -> torch.Tensor:
        weights = self._word_weights(side, texts)
        matched = sum_of_words(weights[:, None] * similarities.T, texts) + shared
        count = text_count(texts)
        total = segment_sum(pair_weights, texts["pairs"][:, 0], count + 1)[:count]
        total = total + sum_of_words(weights, texts)
        side_weight = self._weight("side_weights")[side].abs() * SCALAR_RATE
        return side_weight * matched / total.clamp(min=1e-9)[:, None]

    def _pair_weights(self, side: int, texts: Texts) -> torch.Tensor:
        bias = self._weight("pair_bias")[side] * SCALAR_RATE
        return functional.softplus(texts["pair_idf"] / IDF_DIVISOR + bias)

    def _word_weights(self, side: int, texts: Texts) -> torch.Tensor:
        importance = self._weight("importance")[:, side : side + 1]
        means = torch.cat(
            [
                functional.embedding_bag(ids, importance, mode="mean", padding_idx=0)[:, 0]
                for ids in as_tuple(texts["word_ngrams"])
            ]
        )
        weights = functional.softplus(texts["word_idf"] / IDF_DIVISOR + means)
        is_word = torch.arange(len(weights), device=weights.device) > 0
        return torch.where(is_word, weights, 0.0)


class CudnnLSTM(TorchModel):
    """The model `lstm` with `torch.nn.LSTM`, which is cuDNN's on a GPU."""

    def __init__(self, model: Siamese, config: Config) -> None:
        super().__init__(model, config)
        cells = self.tower.cells
        self.lstm = torch.nn.LSTM(4 * cells, cells, batch_first=True)

    def _recurrent(self, words: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(words)
        last = present.sum(1).clamp(min=1) - 1
        return states[torch.arange(len(words), device=words.device), last]


def click_softmax(
    scores: torch.Tensor, labels: Mapping[str, torch.Tensor], weights: torch.Tensor, gamma: float
) -> torch.Tensor:
    """The mean loss of a batch; see `dssm_tf.losses.click_softmax`."""
    logits = (gamma * scores.float() + labels["correction"]).masked_fill(~labels["mask"], -1e9)
    return (weights * (torch.logsumexp(logits, 1) - logits[:, 0])).sum() / weights.sum()


def with_candidates(scores: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
    """Scores of the candidates, then those of the in-batch negatives, see `Siamese`."""
    of_candidates = scores.gather(1, inputs["candidates"].long())
    return torch.cat([of_candidates, scores[:, : len(inputs.get("in_batch", ()))]], 1)


def normalize(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors of length 1, in float32; a zero vector stays zero."""
    vectors = vectors.float()
    squares = vectors.square().sum(-1, keepdim=True)
    return vectors * torch.rsqrt(squares.clamp(min=_EPSILON))


def as_tuple(matrices: Any) -> tuple[torch.Tensor, ...]:
    """The matrices of all length groups."""
    return tuple(matrices) if isinstance(matrices, (tuple, list)) else (matrices,)


def shifted(values: torch.Tensor, shift: int) -> torch.Tensor:
    """`values[:, t + shift]` at index `t` of axis 1; zero or false outside the text."""
    widths = (0, 0, max(-shift, 0), max(shift, 0))
    padded = functional.pad(values, widths)
    return padded[:, :shift] if shift < 0 else padded[:, shift:]


def segment_sum(values: torch.Tensor, segments: torch.Tensor, count: int) -> torch.Tensor:
    """The sum of the values of each segment, `(count,)`."""
    return values.new_zeros(count).index_add(0, segments.long(), values)


def text_count(texts: Texts) -> int:
    """The number of texts of a text batch."""
    return len(texts["rows"] if "rows" in texts else as_tuple(texts["tokens"])[0])


def by_group(texts: Texts, groups: list[torch.Tensor]) -> torch.Tensor:
    """Joins the results of all length groups, in the order of the texts."""
    joined = torch.cat(groups)
    return joined[texts["rows"].long()] if "rows" in texts else joined


def most_similar_words(cosines: torch.Tensor, texts: Texts) -> torch.Tensor:
    """The word of each text that is most similar to each other word, `(texts, other words)`."""
    groups = []
    for tokens in map(torch.Tensor.long, as_tuple(texts["tokens"])):
        highest = cosines[tokens[:, 0]]
        rows = tokens[:, :1].expand(highest.shape)
        for position in range(1, tokens.shape[1]):
            token = tokens[:, position]
            values = cosines[token]
            rows = torch.where(values > highest, token[:, None], rows)
            highest = torch.maximum(values, highest)
        groups.append(rows)
    return by_group(texts, groups)


def sum_of_words(values: torch.Tensor, texts: Texts) -> torch.Tensor:
    """The sum of the values of each text's distinct words, `(texts, ...)`."""
    groups = []
    for tokens in map(torch.Tensor.long, as_tuple(texts["tokens"])):
        equal = tokens[:, :, None] == tokens[:, None, :]
        is_repeat = equal.tril(-1).any(2)
        groups.append(values[tokens.masked_fill(is_repeat, 0)].sum(1))
    return by_group(texts, groups)


def shared_pairs(
    queries: Texts, titles: Texts, query_weights: torch.Tensor, title_weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of the weights of shared pairs, two matrices `(queries, titles)`."""
    query_ids, title_ids = queries["pairs"][:, 1], titles["pairs"][:, 1].contiguous()
    query_count, title_count = text_count(queries), text_count(titles)
    known = query_ids.sort().values
    rows, columns = len(known), title_count + 1

    def row_of(ids: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(known, ids.contiguous()).clamp(max=rows - 1)

    title_row = row_of(title_ids)
    is_known = (known[title_row] == title_ids).to(title_weights.dtype)
    cells = title_row * columns + titles["pairs"][:, 0]

    def by_pair(values: torch.Tensor) -> torch.Tensor:
        matrix = segment_sum(values, cells, rows * columns).reshape(rows, columns)
        return matrix[:, :title_count][row_of(query_ids)]

    def by_query(values: torch.Tensor) -> torch.Tensor:
        sums = values.new_zeros(query_count + 1, values.shape[1])
        return sums.index_add(0, queries["pairs"][:, 0].long(), values)[:query_count]

    of_query = by_query(query_weights[:, None] * by_pair(is_known))
    return of_query, by_query(by_pair(is_known * title_weights))
