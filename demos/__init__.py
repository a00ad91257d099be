"""Programs, one phenomenon each. What they share is in `parallel_by_hand`.

A module that was shared here once is not found any more; its new place is named.
"""

import sys
from importlib.machinery import ModuleSpec


class _Moved:
    """Asked last, when nobody else has found the module."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> ModuleSpec | None:
        package, *words = name.split(".")
        if package != "demos" or words[1:2] != ["parts"]:
            return None
        if len(words) == 2:  # the old folder: its modules are asked for
            return ModuleSpec(name, None, is_package=True)
        from sidebyside.course.moved import new_name

        place = new_name(words[0], words[2])
        now = f"now {place}: import it from there" if place else "no longer there"
        raise ImportError(f"{name} is {now}", name=name)


sys.meta_path.append(_Moved)
