"""Python imports this first where this folder is in PYTHONPATH: torch gets its GPUs.

So do processes that are started later, and their processes: the environment is theirs.
"""

import importlib.util
import os
import sys


class WhenTorchIsImported:
    """Lets torch be imported as usual, and then pretends."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        usual = spec.loader.exec_module

        def import_and_pretend(module):
            usual(module)
            from pretended_gpus import pretend_gpus

            pretend_gpus(int(os.environ["SIDEBYSIDE_PRETENDED_GPUS"]))

        spec.loader.exec_module = import_and_pretend
        return spec


if os.environ.get("SIDEBYSIDE_PRETENDED_GPUS", "0") != "0":
    sys.meta_path.insert(0, WhenTorchIsImported())
