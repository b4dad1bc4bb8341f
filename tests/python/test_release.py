"""What strangers see of the project: addresses, versions, links, the bill of materials."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "release"))
import check  # noqa: E402
import libraries  # noqa: E402
import readme  # noqa: E402

needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no git, or no clone"
)


def test_version_day_and_address_are_the_same_everywhere() -> None:
    assert list(check.disagreements()) == []


@needs_git
def test_a_release_with_placeholders_is_refused() -> None:
    said = list(check.obstacles())
    is_placeholder = ".invalid" in (ROOT / "pyproject.toml").read_text()
    assert any("placeholders" in line for line in said) == is_placeholder


def test_links_of_the_readme_lead_to_the_source_and_to_files_that_exist() -> None:
    text = readme.with_addresses((ROOT / "README.md").read_text(), "1.2.3")
    links = re.findall(r'\]\(([^)#]+)(?:#[^)]*)?\)|src="([^"]+)"', text)
    assert len(links) > 30
    for page, picture in links:
        kind, link = ("raw", picture) if picture else ("blob", page)
        start = f"{readme.source()}/{kind}/v1.2.3/"
        assert link.startswith(start)
        assert (ROOT / link.removeprefix(start)).exists(), link


def headings(page: Path) -> set[str]:
    """Return what links to parts of a page may name, as hosts of git and mkdocs write it."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    names = set()
    for title in re.findall(r"(?m)^#+ (.+)$", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        names.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain)))
    return names


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("python/**/README.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_of_pages_lead_to_files_and_to_parts_that_exist(page: Path) -> None:
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    text = re.sub(r"`[^`\n]*`", "", text)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    for link in links:
        if re.match(r"https?://|mailto:", link):
            continue
        file, _, part = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        made = ROOT / "docs/reference"  # pages that docs/make_site.py writes
        if target.parent == made and target.stem in ("tensortap", "commands", "c", "examples"):
            continue
        assert target.exists(), link
        assert not part or part in headings(target), link


@needs_git
def test_address_of_the_source_is_written_in_two_places_only() -> None:
    host = readme.source().split("/")[2]
    words = ["git", "grep", "-l", "--untracked", host]
    named = subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert set(named) <= {"pyproject.toml", "CITATION.cff"}


def test_what_builds_a_wheel_is_pinned_to_one_version_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for name in ("release/requirements.txt", "tests/requirements.txt"):
        for tool, pin in re.findall(r"(?m)^([\w-]+)==(\S+)", (ROOT / name).read_text()):
            pins.setdefault(tool, set()).add(pin)
    for tool in ("meson", "meson-python", "ninja", "uplot-python", "ziglang", "wheel"):
        assert len(pins[tool]) == 1, tool
    loose = re.findall(r"(?m)^(?![#\n]).*$", (ROOT / "release/requirements.txt").read_text())
    assert all("==" in line for line in loose if line)
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert f"uplot-python=={pins['uplot-python'].copy().pop()}" in needs


def test_a_script_of_another_uplot_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "uplot/static"
    folder.mkdir(parents=True)
    (tmp_path / "uplot/__init__.py").touch()
    (folder / "uPlot.iife.js").write_text("/* */ alert(1)")
    (folder / "uPlot.min.css").write_text("")
    code = "import sys; sys.path[:0] = sys.argv[1:]; import embed; embed.uplot()"
    words = [sys.executable, "-c", code, str(tmp_path), str(ROOT / "web")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "is not the one of uPlot 1.6.16" in done.stderr


def test_the_bill_of_materials_is_the_same_twice_and_names_every_part() -> None:
    for tool in ("ziglang", "wheel"):
        pytest.importorskip(tool)
    import sbom

    first, second = (sbom.bill("a.whl", "1.2.3", "c0ffee", 1_700_000_000) for _ in range(2))
    assert first == second
    for name, one in libraries.LIBRARIES.items():
        assert f'"{name}"' in first
        assert one.sha256 in first


def test_the_embedded_script_is_the_one_of_the_bill() -> None:
    uplot = pytest.importorskip("uplot")
    script = Path(uplot.__file__).parent / "static/uPlot.iife.js"
    assert hashlib.sha256(script.read_bytes()).hexdigest() == libraries.UPLOT[1]
    assert f"(v{libraries.UPLOT[0]})" in script.read_text()


def test_workflows_run_commands_of_dev_with_pinned_actions_and_few_rights() -> None:
    known = set(re.findall(r"(?m)^cmd_(\w+)\(\)", (ROOT / "dev").read_text()))
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text()
        for action in re.findall(r"(?m)uses: (\S+)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"{path.name}: {action}"
        for step in re.findall(r"(?m)run: (.+)$", text):
            asked = re.search(r"\./dev (\S+)", step)
            if asked and not asked[1].startswith("${{"):
                assert asked[1] in known, f"{path.name}: {step}"
            elif not asked:
                assert re.match(r"git config|apt-get|mkdir upload", step), f"{path.name}: {step}"
        assert "\npermissions:\n  contents: read\n" in text, path.name
        jobs = len(re.findall(r"(?m)^    runs-on: ", text))
        assert len(re.findall(r"(?m)^    timeout-minutes: ", text)) == jobs, path.name
        assert "\nconcurrency:\n" in text, path.name


def report_of_gpu(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch")
    command = [sys.executable, str(ROOT / "bench/gpu_report.py"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_without_a_gpu_the_report_says_what_is_missing(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = report_of_gpu(tmp_path)
    assert done.returncode == 3
    assert "sees no device 'cuda'" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
def test_the_report_about_a_gpu_can_be_rehearsed(tmp_path: Path) -> None:
    done = report_of_gpu(tmp_path, "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "gpu-report.md").read_text()
    assert "**failed**" not in text
    assert text.count("\n| ") == 9
