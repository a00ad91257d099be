"""The first and only thing that our forkserver imports: all that its ranks will need.

When the forkserver ends, its socket's folder goes too. multiprocessing leaves that to
the process that started it, which cannot do it when it is killed.
"""

import atexit
import contextlib
import gc
import importlib
import os
import shutil
import tempfile
import time
from multiprocessing import forkserver

PRELOADED = ["sidebyside.rank_process", "sidebyside.forkserver_apart", "cloudpickle"]
PRELOADED += ["sidebyside.ranks", "sidebyside.exercises"]  # what checks import
PRELOADED += ["torch", "torch.distributed"]
PRELOADED += ["torch._dynamo"]  # the first optimizer of a process imports it: 1 s


def _import_at_forkserver_start() -> None:
    """torch._dynamo makes a folder for compiled code as soon as it is imported.

    It puts nothing in it, so a folder that is there serves, and none is left behind by
    a server that is killed meanwhile.
    """
    variable = "TORCHINDUCTOR_CACHE_DIR"
    chosen = os.environ.get(variable)
    os.environ[variable] = chosen or tempfile.gettempdir()
    gc.disable()
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()  # no rank searches, and so copies, what is imported here
    gc.enable()
    del os.environ[variable]
    if chosen is not None:
        os.environ[variable] = chosen


def _remove_folder_of_forkserver(server: int, parent: int) -> None:
    if os.getpid() != server:  # one of the children that it forked
        return
    end = time.monotonic() + 1
    while os.getppid() == parent:  # it may be about to end
        if time.monotonic() > end:
            return  # the parent lives and will remove the folder itself
        time.sleep(0.01)
    folder = os.path.dirname(forkserver._forkserver._forkserver_address)
    shutil.rmtree(folder, ignore_errors=True)


atexit.register(_remove_folder_of_forkserver, os.getpid(), os.getppid())
_import_at_forkserver_start()
