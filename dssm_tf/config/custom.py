"""Classes from outside this package, found by the name that Keras registered them under."""

from __future__ import annotations

import inspect
import json
from typing import Any

from dssm_tf.common.errors import UserError


def describe(instance: Any, base: type[Any]) -> tuple[str, dict[str, Any]]:
    """The registered name and the configuration of an instance.

    Raises:
        UserError: its class is not registered with Keras, or does not extend `base`; or its
            `get_config` lacks an argument of the constructor.
    """
    import keras

    kind = type(instance)
    if not isinstance(instance, base):
        raise UserError(f"received a {kind.__name__}; expected a subclass of {base.__name__}.")
    registered_name: str = keras.saving.get_registered_name(kind)
    if keras.saving.get_registered_object(registered_name) is not kind:
        raise UserError(
            f"{kind.__name__} is not registered with Keras, so a saved model could not be loaded; "
            f'decorate it with @keras.saving.register_keras_serializable(package="...").'
        )
    config = dict(instance.get_config())
    parameters = inspect.signature(kind.__init__).parameters.values()
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in ("self", *config)
    ]
    if missing:
        raise UserError(
            f"{kind.__name__}.get_config lacks {', '.join(missing)}; it must return every "
            "argument of the constructor, or a saved model could not be loaded."
        )
    try:
        config = json.loads(json.dumps(config))
    except TypeError as error:
        raise UserError(
            f"{kind.__name__}.get_config returns a value that JSON cannot represent ({error}); "
            "return plain numbers, texts, lists and dicts."
        ) from None
    return registered_name, config


def registered_class(registered_name: str, base: type[Any]) -> type[Any]:
    """The class that is registered with Keras under a name. No module is imported to find it.

    Raises:
        UserError: no class has the name, or it does not extend `base`.
    """
    import keras

    kind: Any = keras.saving.get_registered_object(registered_name)
    if kind is None:
        raise UserError(
            f"{registered_name} is not registered with Keras; import the module that defines this "
            f"{base.__name__.lower()} before loading the model."
        )
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise UserError(f"{registered_name} is not a subclass of {base.__name__}.")
    return kind
