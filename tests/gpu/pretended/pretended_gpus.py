"""GPUs that do not exist: real numbers on the CPU, with a GPU's rules.

A tensor "on" such a GPU is a wrapper around one on the CPU. It says that its device is
cuda:0, and refuses to be computed with a tensor of another device, as on a GPU; so does
its random generator. Times, streams and kernels are the CPU's: nothing is proved of
them. What is: which device is chosen, and that what meets is on one device.
torch's LSTM and FSDP2 cannot run on such GPUs, and torch 2.13 is needed.
"""

import functools
import threading
from weakref import WeakSet

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

INSIDE = "pretended"  # our name for the device that a program may bring along
INSIDE_DEVICE = torch.device("privateuseone", 0)  # torch believes there is only one
MOVES = ("aten.copy_", "aten._to_copy")  # may have tensors of two devices
INDEXED = ("aten.index.", "aten.index_put", "aten._index_put")  # by the CPU's, too
FACTORIES = (
    *("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm"),
    *("arange", "tensor", "as_tensor", "linspace", "eye", "normal", "multinomial"),
    *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
)
MOVERS = ("to", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor")
gpu_generators: WeakSet = WeakSet()
asked_for = threading.local()  # `place` is the GPU of a call under way


class GpuTensor(torch.Tensor):
    """A tensor that is on a GPU, as far as anybody can tell."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor, place: int):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=INSIDE_DEVICE,
        )

    def __init__(self, held: torch.Tensor, place: int):
        self.held, self.place = held, place

    device = property(lambda self: torch.device("cuda", self.place))
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        torch.Tensor.data.__set__(self, other)
        self.held, self.place = other.held, other.place

    def data_ptr(self):
        return self.held.data_ptr()

    def untyped_storage(self):
        return self.held.untyped_storage()

    def tolist(self):
        return self.held.tolist()

    def numpy(self, *args, **kwargs):
        raise TypeError("can't convert cuda tensor to numpy: use .cpu() first")

    def __repr__(self, **kwargs):
        return f"{self.held!r:.60} on {self.device}"

    def __reduce_ex__(self, protocol):
        return _again, (self.held, self.place, self.requires_grad)

    def __deepcopy__(self, memo):
        twin = _again(self.held.clone(), self.place, self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            twin = torch.nn.Parameter(twin, self.requires_grad)
        return memo.setdefault(id(self), twin)

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        """Do `operation` on the CPU, if a GPU would do it, and wrap what it gives."""
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        place = _check_devices(str(operation), leaves)
        wanted = kwargs.get("device")
        if wanted is not None:
            wanted = torch.device(wanted)
            place = place_asked_for() if wanted.type == INSIDE else None
            kwargs["device"] = torch.device("cpu")
        mine = {id(leaf.held): leaf for leaf in leaves if isinstance(leaf, cls)}
        result = operation(*_held(args), **_held(kwargs))

        def wrap(value):
            if not isinstance(value, torch.Tensor) or place is None:
                return value
            return mine[id(value)] if id(value) in mine else cls(value, place)

        return tree_map(wrap, result)


def _again(held: torch.Tensor, place: int, requires_grad: bool) -> GpuTensor:
    return GpuTensor(held, place).requires_grad_(requires_grad)


def _held(values):
    """The same arguments, with what the CPU holds in place of the wrappers."""
    return tree_map(lambda v: v.held if isinstance(v, GpuTensor) else v, values)


def _check_devices(operation: str, leaves: list) -> int:
    """The place of the GPU; an error if something else takes part."""
    gpus = {leaf.place for leaf in leaves if isinstance(leaf, GpuTensor)}
    others = [
        leaf
        for leaf in leaves
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, GpuTensor)
    ]
    if operation.startswith(MOVES):  # in place, it stays where the first one is
        return next(leaf.place for leaf in leaves if isinstance(leaf, GpuTensor))
    mixed = [leaf for leaf in others if leaf.dim() > 0]
    if len(gpus) > 1 or (mixed and not operation.startswith(INDEXED)):
        places = sorted({f"cuda:{g}" for g in gpus} | {str(m.device) for m in mixed})
        raise RuntimeError(
            f"{operation}: Expected all tensors to be on the same device, but found at "
            f"least two devices, {' and '.join(places)}"
        )
    for leaf in leaves:
        if isinstance(leaf, torch.Generator) and leaf not in gpu_generators:
            raise RuntimeError(
                "Expected a 'cuda' device type for generator, found 'cpu'"
            )
    return gpus.pop()


def place_asked_for() -> int:
    return getattr(asked_for, "place", torch.cuda.current_device())


class BetweenGpus(torch.autograd.Function):
    """A copy on another GPU; its gradient comes back to where it was."""

    @staticmethod
    def forward(ctx, tensor, place):
        ctx.place = tensor.place
        return GpuTensor(tensor.held.clone(), place)

    @staticmethod
    def backward(ctx, gradient):
        return GpuTensor(gradient.held.clone(), ctx.place), None


def gpu_meant(value) -> int | None:
    """The number of the GPU, if `value` names one: "cuda", torch.device("cuda", 1)."""
    is_name = isinstance(value, str) and value.startswith("cuda")
    if not is_name and getattr(value, "type", None) not in ("cuda", INSIDE):
        return None
    index = torch.device(value).index if is_name else value.index
    if getattr(value, "type", None) == INSIDE:
        return place_asked_for()
    return torch.cuda.current_device() if index is None else index


def translated(function):
    """The function, with our device in place of cuda's among its arguments."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        kwargs.pop("pin_memory", None)
        values = [*args[1:], kwargs.get("device")]
        places = [p for p in map(gpu_meant, values) if p is not None]
        if not places:
            return function(*args, **kwargs)
        dice = kwargs.get("generator")
        if dice is not None and dice not in gpu_generators:
            raise RuntimeError(
                "Expected a 'cuda' device type for generator, found 'cpu'"
            )
        if function.__name__ == "to" and args[0].is_cuda and args[0].place != places[0]:
            return BetweenGpus.apply(args[0], places[0])
        args = [INSIDE_DEVICE if gpu_meant(a) is not None else a for a in args]
        if gpu_meant(kwargs.get("device")) is not None:
            kwargs["device"] = INSIDE_DEVICE
        before = vars(asked_for).copy()
        asked_for.place = places[0]
        try:
            return function(*args, **kwargs)
        finally:
            vars(asked_for).pop("place")
            vars(asked_for).update(before)

    return call


def make_empty(size, dtype=None, device=None, **ignored) -> GpuTensor:
    return GpuTensor(torch.empty(size, dtype=dtype), place_asked_for())


def make_strided(size, stride, dtype=None, device=None, **ignored) -> GpuTensor:
    held = torch.empty_strided(size, stride, dtype=dtype)
    return GpuTensor(held, place_asked_for())


def copy_over(source, target, non_blocking: bool = False) -> torch.Tensor:
    _held((target,))[0].copy_(*_held((source,)))
    return target


def pretend_gpus(count: int) -> None:
    """From here on this process has so many GPUs."""
    import torch.distributed.optim  # compiles what calls torch.zeros and its like
    from pretended_cuda import pretend_cuda
    from pretended_nccl import pretend_nccl

    _setup_privateuseone_for_python_backend(INSIDE)
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", make_empty, "PrivateUse1")
    library.impl("empty_strided", make_strided, "PrivateUse1")
    library.impl("_copy_from", copy_over, "PrivateUse1")
    GpuTensor.library = library  # or it were unregistered
    for name in FACTORIES:
        setattr(torch, name, translated(getattr(torch, name)))
    for name in MOVERS:
        setattr(torch.Tensor, name, translated(getattr(torch.Tensor, name)))
    pretend_cuda(count)
    pretend_nccl()
