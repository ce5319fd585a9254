"""Hooks on gradients: a script that sees or changes gradients within the backward pass.

What weighs a loss would have them see gradients that are too large or too small, and a threshold in
one of them would cut off something else. It ends where a script has one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

WHY = "hooks on gradients would see {}"
ON_TENSORS = ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")
ON_MODULES = (
    "register_backward_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
)
ON_ALL_MODULES = (
    "register_module_backward_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
)


def watch(torch: Any, told: Callable[[], None]) -> None:
    """`told` is called when a script registers one; DistributedDataParallel's do not count."""
    for owner, names in (
        (torch.Tensor, ON_TENSORS),
        (torch.nn.Module, ON_MODULES),
        (torch.nn.modules.module, ON_ALL_MODULES),
    ):
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, _telling(getattr(owner, name), told))


def _telling(plain: Any, told: Callable[[], None]) -> Any:
    @functools.wraps(plain)
    def register(*args: Any, **kwargs: Any) -> Any:
        told()
        return plain(*args, **kwargs)

    return register


def there(module: Any) -> bool:
    """Whether a model has some already: those of a model at hand were registered before."""
    on_modules = any(one._backward_hooks or one._backward_pre_hooks for one in module.modules())
    return on_modules or on(module.parameters())


def on(parameters: Iterable[Any]) -> bool:
    return any(
        one._backward_hooks or getattr(one, "_post_accumulate_grad_hooks", None)
        for one in parameters
    )
