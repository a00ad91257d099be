"""Private names of Python, torch and IPython: each stands here, with the reason.

A new release may move any of them. Then the test says which one, and who needs it.
What a lesson's source takes is its subject, or stands in its text, and is not here.
"""

import ast
import importlib
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SERVER = "multiprocessing.forkserver._forkserver"
FSDP_STATE = "torch.distributed.fsdp._fully_shard._fsdp_state"
PRIVATE = {
    "IPython.core.compilerop.CachingCompiler()._filename_map": "the cell of a line",
    "atexit._run_exitfuncs": "an interrupted program ends without waiting for threads",
    SERVER: "a rank lets go of the server that forked it",
    f"{SERVER}._forkserver_address": "a rank asks the server that forked it for more",
    f"{SERVER}._forkserver_alive_fd": "a rank does not keep its server alive",
    f"{SERVER}._forkserver_authkey": "since 3.14: what a rank shows to its server",
    f"{SERVER}._forkserver_pid": "none: this process was forked by the server",
    "multiprocessing.context.ForkServerProcess._Popen": "processes of our own server",
    "multiprocessing.popen_forkserver.Popen._fds": "the same; each has its own",
    "multiprocessing.popen_forkserver.Popen._launch": "the same",
    "multiprocessing.process.current_process()._config": "what children inherit",
    "multiprocessing.process.current_process()._inheriting": "no main guard",
    "multiprocessing.util._run_finalizers": "a rank ends without waiting for threads",
    "torch.Tensor._base": "a view keeps the bytes of its base",
    "torch.Tensor._is_view": "the same",
    "torch._C._distributed_c10d._dump_fr_trace": "the flight recorder, without a GPU",
    "torch._dynamo": "the first optimizer imports it: the forkserver has done so",
    "torch.autograd.Variable._execution_engine": "as DDP: the end of a backward pass",
    "torch.distributed.Work._source_rank": "who sent a message taken from any rank",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper": "as torchtitan does",
    "torch.distributed.device_mesh.DeviceMesh._flatten": "one all-reduce for a norm",
    "torch.distributed.distributed_c10d._resolve_process_group": "DTensor's groups",
    "torch.distributed.fsdp.FSDPModule._get_fsdp_state": "what FSDP2 has gathered",
    f"{FSDP_STATE}.FSDPState()._fsdp_param_groups": "the same",
    "torch.distributed.distributed_c10d._get_default_store": "what ranks have noted",
    "torch.testing._internal.distributed.fake_pg.FakeStore": "one rank of 1,024",
    "torch.utils._python_dispatch.TorchDispatchMode": "each operation is seen",
    "torch.utils._pytree.tree_leaves": "the tensors in whatever an operation gives",
}
NOT_HERE = {
    f"{SERVER}._forkserver_authkey",
    "multiprocessing.popen_forkserver.Popen._fds",
}
NOT_HERE |= {"multiprocessing.process.current_process()._inheriting"}
# Documented, in spite of their names.
PUBLIC = {"_exit", "_current_frames", "_is_gil_enabled", "_replace", "_asdict"}
PUBLIC |= {"_fields", "_make", "_repr_png_", "_render_traceback_"}


def found(name: str) -> object:
    """The object of this dotted name, in which `()` calls."""
    first, *rest = name.split(".")
    here = importlib.import_module(first)
    path = first
    for part in rest:
        path += f".{part}"
        if not hasattr(here, part.removesuffix("()")):
            importlib.import_module(path)
        here = getattr(here, part.removesuffix("()"))
        here = here() if part.endswith("()") else here
    return here


@pytest.mark.parametrize("name", sorted(PRIVATE.keys() - NOT_HERE))
def test_this_release_still_has(name):
    try:
        found(name)
    except (AttributeError, ImportError) as missing:
        here = f"Python {sys.version.partition(' ')[0]}, torch {torch.__version__}"
        pytest.fail(f"{missing}, in {here}; it is needed for: {PRIVATE[name]}")


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def used(tree: ast.AST) -> set[str]:
    """Private names that are taken from an object or a module."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names |= {*(node.module or "").split("."), *(a.name for a in node.names)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            names |= {getattr(node.args[1], "value", "")}
    return {name for name in names if isinstance(name, str) and private(name)}


def defined(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(
            node.ctx, ast.Store
        ):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return names


def test_whatever_is_taken_stands_in_the_table():
    files = [*(ROOT / "resources").rglob("*.py"), *(ROOT / "demos").rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    trees = [ast.parse(text) for text in texts]
    known = {part for name in PRIVATE for part in name.split(".") if private(part)}
    own = set().union(*map(defined, trees)) - known
    assert set().union(*map(used, trees)) - PUBLIC - own - known == set()
    assert [name for name in known if name not in "".join(texts)] == []
