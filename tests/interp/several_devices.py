"""Devices that a test can have any number of: their tensors lie on the CPU and say otherwise.

As on GPUs, an operation takes tensors of one device only, apart from copies, scalars, and indices
on the CPU. As on Apple's, none takes float64. Nothing but the name is taken from the device type,
which PyTorch has no kernels for.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

TYPE = "meta"
_aten = torch.ops.aten
_COPIES = ("aten::_to_copy", "aten::copy_", "aten::to")
_INDEXING = (_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default)


class _Elsewhere(Tensor):
    """A tensor on one of the devices."""

    on_host: Tensor

    @staticmethod
    def __new__(cls, on_host: Tensor, device: torch.device) -> "_Elsewhere":
        shape = on_host.shape, on_host.stride(), on_host.storage_offset()
        with torch.inference_mode(False):  # others of this kind cannot be sliced
            made: _Elsewhere = Tensor._make_wrapper_subclass(
                cls, *shape, dtype=on_host.dtype, device=device
            )
        made.on_host = on_host
        return made

    def tolist(self) -> Any:
        return self.on_host.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(function, args, kwargs or {})


class SeveralDevices(TorchDispatchMode):  # type: ignore[misc]
    """A mode in which tensors are made on the devices and moved between them.

    Attributes:
        reads: The operations so far that brought data from a device to the CPU.
    """

    reads: ClassVar[list[str]] = []

    def __enter__(self) -> "SeveralDevices":
        # torch.tensor makes a tensor on the CPU and moves it, as it does for fake tensors.
        self._before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        super().__enter__()
        self.reads.clear()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch._C._set_only_lift_cpu_tensors(self._before)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an operation on the CPU, and put its results where it would have."""
    operands = [*args, *kwargs.values()]
    if function in _INDEXING:
        operands[1] = [
            index for index in args[1] if index is not None and index.device.type == TYPE
        ]
    leaves = tree_leaves(operands)
    asked = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    devices = list(dict.fromkeys(tensor.device for tensor in tensors if tensor.ndim))
    name = function._schema.name
    if len(devices) > 1 and name not in _COPIES:
        raise RuntimeError(f"{name}: tensors on {', '.join(map(str, devices))}")
    (device, *_) = [*asked, *devices, *(tensor.device for tensor in tensors), torch.device("cpu")]
    result = function(*tree_map(on_cpu, args), **tree_map(on_cpu, dict(kwargs)))
    results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    if device.type == TYPE and any(tensor.dtype == torch.float64 for tensor in results):
        raise RuntimeError(f"{name}: float64 on {device}")
    is_read = device.type == "cpu" or not results
    if is_read and any(isinstance(tensor, _Elsewhere) for tensor in tensors):
        SeveralDevices.reads.append(name)
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    return tree_map(lambda leaf: _placed(leaf, device), result)


def on_cpu(value: Any) -> Any:
    """Return a tensor on the CPU, the CPU for a device, and anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.on_host if isinstance(value, _Elsewhere) else value


def _placed(value: Any, device: torch.device) -> Any:
    """Return a tensor as one on a device, and anything else as it is."""
    is_elsewhere = isinstance(value, Tensor) and device.type == TYPE
    return _Elsewhere(value, device) if is_elsewhere else value


def spread(model: nn.Module, devices: Mapping[str, int]) -> None:
    """Move parts of a model, by their names, to devices, as accelerate does for a device map."""
    for name, number in devices.items():
        part, device = model.get_submodule(name), torch.device(TYPE, number)
        for module in part.modules():
            for key, weight in module._parameters.items():
                if weight is not None:
                    moved = _placed(weight.detach(), device)
                    module._parameters[key] = nn.Parameter(moved, requires_grad=False)
            for key, buffer in module._buffers.items():
                module._buffers[key] = _placed(buffer, device)
        hook = AlignDevicesHook()  # without a device, so that it moves no weights itself
        add_hook_to_module(part, hook)
        hook.execution_device = device
    skipped = model._skip_keys_device_placement
    add_hook_to_module(model, AlignDevicesHook(io_same_device=True, skip_keys=skipped), append=True)
