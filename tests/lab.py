"""A real JupyterLab with private settings, and a real browser to look at it."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def chromium() -> str | None:
    """Where this machine's Chromium is, if it has one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def jupyterlab(
    folder: Path,
    notebook: str,
    private: Path,
    settings: dict | None = None,
    start: tuple[str, ...] = (),
) -> Iterator[str]:
    """`jupyter lab --notebook-dir . NOTEBOOK` in `folder`; yields the address it opens.

    `start` is another command for Python, such as ("-m", "sidebyside", "--").
    Everything the server writes goes to the folder `private`. `settings` maps plugin
    names to settings, as a user would have chosen them in the settings editor.
    """
    chosen = private / "settings"
    for plugin, values in (settings or {}).items():
        path = chosen / f"{plugin.replace(':', '/')}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    # The server starts the program in $BROWSER; ours notes down what it should open.
    opened = private / "opened"
    browser = private / "browser.py"
    private.mkdir(parents=True, exist_ok=True)
    browser.write_text(
        f"import sys, pathlib\npathlib.Path({str(opened)!r}).write_text(sys.argv[1])\n"
    )
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(private / "config"),
        "JUPYTER_DATA_DIR": str(private / "data"),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(chosen),
        "JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"),
        "IPYTHONDIR": str(private / "ipython"),
        "BROWSER": f"{sys.executable} {browser} %s",
    }
    environment.pop("PYTEST_CURRENT_TEST", None)  # hides what children print
    usual = "-m", "jupyterlab", "--notebook-dir", ".", notebook
    command = [sys.executable, *(start or usual)]
    command += ["--allow-root"] if os.name == "posix" and os.getuid() == 0 else []
    command += ["--ServerApp.port=0", f"--IdentityProvider.token={secrets.token_hex()}"]
    log = private / "log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stream, stderr=stream
        )
    try:
        deadline = time.monotonic() + 240
        while not (opened.exists() and opened.read_text()):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield opened.read_text()
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def browser_page(width: int = 1300, height: int = 900) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=CHROMIUM_FLAGS, timeout=120_000
        )
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(60_000)
            yield page
        finally:
            browser.close()


def run_all_cells(page: Page, seconds: float = 120) -> None:
    """Run > Run All Cells, then wait until no cell is waiting any more."""
    ready = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
    ready.wait_for(state="attached", timeout=seconds * 1000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(
        """() => {
            const prompts = [...document.querySelectorAll(
                '.jp-CodeCell .jp-InputArea-prompt')].map(p => p.textContent.trim());
            return prompts.length > 0 && prompts.every(p => /^\\[\\d+\\]:$/.test(p));
        }""",
        timeout=seconds * 1000,
    )
