"""The first and only thing that the forkserver of ranks imports: all that they need.

When the forkserver ends, so does all that it has forked, and its socket's folder goes.
multiprocessing leaves that to the process that started it, which cannot do it when it
is killed. What a dead rank has left becomes the forkserver's, so that it can be found.
"""

# multiprocessing's private names: tests/test_private_names.py says why each is taken.
# pyright: reportAttributeAccessIssue=false

import atexit
import contextlib
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
import warnings
from multiprocessing import forkserver

from sidebyside.programs.process_groups import end_groups, inherit_orphans, lead_group

PRELOADED = ["sidebyside.ranks.process", "sidebyside.ranks.forkserver", "cloudpickle"]
PRELOADED += ["sidebyside.ranks.launch", "sidebyside.exercises.check", "psutil"]
PRELOADED += ["torch", "torch.distributed"]
PRELOADED += ["torch._dynamo"]  # the first optimizer of a process imports it: 1 s


def _leave_group() -> None:
    """An interrupt that came before was not meant for us: it is forgotten."""
    lead_group()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _import_all() -> None:
    """torch._dynamo makes a folder for compiled code as soon as it is imported.

    It puts nothing in it, so a folder that is there serves, and none is left behind by
    a server that is killed meanwhile.
    """
    variable = "TORCHINDUCTOR_CACHE_DIR"
    chosen = os.environ.setdefault(variable, here := tempfile.gettempdir())
    gc.disable()
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()  # no rank searches, and so copies, what is imported here
    gc.enable()
    if chosen is here:
        del os.environ[variable]


def _end_all(server: int) -> None:
    import psutil

    if os.getpid() == server:  # and not one of the children that it forked
        children = psutil.Process().children()
        for child in children:
            child.kill()
        end_groups(child.pid for child in children)
        folder = os.path.dirname(forkserver._forkserver._forkserver_address)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # modules need not be taken down; triton 3.9 would report a leak


def _say(kind: type, error: BaseException, trace) -> None:
    """What ends a child before it is a rank, unless its parent was interrupted."""
    if kind is not EOFError:
        sys.__excepthook__(kind, error, trace)


_leave_group()
sys.excepthook = _say
inherit_orphans()
warnings.filterwarnings("ignore", "forkserver: waitpid")  # of orphans that have ended
atexit.register(_end_all, os.getpid())
_import_all()
