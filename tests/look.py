"""Take pictures of a lesson as a reader sees it in JupyterLab.

Run:      python tests/look.py 03 --to pictures
Look for: pictures/03_lesson_1.png, 03_lesson_2.png, … from top to bottom, and the
          same of the solution.
Try:      --only solution, --hints to fold all hints open, --dark, --width 800, or --run
          to run all cells of the lesson first, as a learner would.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from sidebyside import program_parser
from tests.lab import browser_page, jupyterlab, run_all_cells

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {  # every cell in the page, not only those in view
    "@jupyterlab/notebook-extension:tracker": {
        "windowingMode": "none",
        "scrollPastEnd": False,
    },
}
DARK = {"@jupyterlab/apputils-extension:themes": {"theme": "JupyterLab Dark"}}
OPEN_HINTS = "document.querySelectorAll('details').forEach(hint => hint.open = true)"


def pictures(notebook: Path, args: argparse.Namespace) -> list[Path]:
    """Save the notebook's page in slices of one height and return their paths."""
    with tempfile.TemporaryDirectory() as name:
        private, folder = Path(name, "private"), Path(name, "course")
        (folder / notebook.parent.name).mkdir(parents=True)
        copy = Path(shutil.copy(notebook, folder / notebook.parent.name))
        figures = ROOT / "resources" / "figures"
        if figures.exists():
            shutil.copytree(figures, folder / "resources" / "figures")
        relative = str(copy.relative_to(folder))
        settings = SETTINGS | (DARK if args.dark else {})
        with (
            jupyterlab(folder, relative, private, settings) as url,
            browser_page(args.width, args.height) as page,
        ):
            page.goto(url)
            page.wait_for_selector(".jp-Notebook .jp-MarkdownOutput")
            page.keyboard.press("Control+b")  # without the file browser
            if args.run and notebook.parent.name == "lessons":
                run_all_cells(page, 300)
            if args.hints:
                page.evaluate(OPEN_HINTS)
            page.wait_for_timeout(2000)  # formulas and diagrams draw themselves
            return slices(page, notebook, args.to)


def slices(page: Page, notebook: Path, to: Path) -> list[Path]:
    kind = {"lessons": "lesson", "solutions": "solution"}[notebook.parent.name]
    scroller = page.locator(".jp-Notebook .jp-WindowedPanel-outer").first
    total = scroller.evaluate("area => area.scrollHeight")
    step = scroller.evaluate("area => area.clientHeight")
    paths = []
    for number, top in enumerate(range(0, total, step), start=1):
        scroller.evaluate("(area, top) => area.scrollTo(0, top)", top)
        page.wait_for_timeout(200)
        paths.append(to / f"{notebook.stem.partition('_')[0]}_{kind}_{number}.png")
        scroller.screenshot(path=paths[-1])
    return paths


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("lesson", metavar="NN")
    add("--to", type=Path, required=True, help="folder for the pictures")
    add("--only", choices=("lesson", "solution"))
    add("--run", action="store_true", help="run the lesson's cells first")
    add("--hints", action="store_true", help="fold the hints open")
    add("--dark", action="store_true", help="in JupyterLab's dark theme")
    add("--width", type=int, default=1300, help="of the browser's window, in pixels")
    add("--height", type=int, default=1600, help="of a picture, in pixels")
    args = parser.parse_args()

    kinds = [args.only] if args.only else ["lesson", "solution"]
    patterns = [f"{kind}s/{args.lesson}_*.ipynb" for kind in kinds]
    notebooks = [path for pattern in patterns for path in ROOT.glob(pattern)]
    if not notebooks:
        parser.error(f"there is no notebook of lesson {args.lesson}")
    args.to.mkdir(parents=True, exist_ok=True)
    for notebook in notebooks:
        for path in pictures(notebook, args):
            print(path)


if __name__ == "__main__":
    main()
