"""Runs in object stores are read like those on disk, from few of their bytes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import PROGRAM, tensortap

import tensortap as tt
from tensortap.cloud import mirror as mirrors
from tensortap.cloud import stores
from tensortap.cloud import upload as uploads
from tensortap.cloud.segments import runs_of, segment_key
from tensortap.cloud.stores import (
    FsspecFolder,
    Object,
    Range,
    StoreError,
    hide_secrets,
    read_ranges,
)
from tensortap.commands.mirrors import ask

pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_CACHE", str(tmp_path / "cache"))


def record(path: Path, *, values: bool = True) -> None:
    """Record a run whose values take most of its bytes; a NaN at step 7."""
    with tt.record(path, keep="stats,value" if values else "stats") as run:
        run.note("a remark")
        run.setting(0, "optimizer/lr", "0.1")
        for step in range(10):
            x = np.random.rand(300, 1000).astype(np.float32)
            x[0, 0] = np.nan if step == 7 else 1
            run.tensor("activation/fc", x)
            run.log("loss", float(step))
            run.step()


def cut(run: Path, bucket: Path, size: int = 1 << 20) -> None:
    """Put a run into a bucket as segments."""
    for file in run.glob("*.tap"):
        content = file.read_bytes()
        for start in range(0, len(content), size):
            end = min(start + size, len(content))
            out = bucket / segment_key(file.name, start)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(content[start:end])


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """Give a folder with a run as it is, and the same in segments."""
    record(tmp_path / "bucket" / "plain")
    cut(tmp_path / "bucket" / "plain", tmp_path / "bucket" / "cut")
    return tmp_path / "bucket"


@pytest.mark.parametrize("name", ["plain", "cut"])
def test_a_run_in_a_store_says_the_same(bucket: Path, name: str) -> None:
    here, there = tt.open(bucket / "plain"), tt.open(f"file://{bucket}/{name}")
    assert there.names() == here.names()
    assert repr(there).startswith(f"<Run 'file://{bucket}/{name}'")
    assert [s.as_dict() for s in there.stats("activation/fc")[:3]] == [
        s.as_dict() for s in here.stats("activation/fc")[:3]
    ]
    assert there.settings == here.settings
    assert [note.text for note in there.notes] == [note.text for note in here.notes]
    assert there.info["start"] == here.info["start"]
    assert there.first_nonfinite is not None
    assert there.first_nonfinite.step == 7
    np.testing.assert_array_equal(
        there.tensor("activation/fc", 3, as_numpy=True),
        here.tensor("activation/fc", 3, as_numpy=True),
    )
    assert there.check().ok


@pytest.mark.parametrize("name", ["plain", "cut"])
def test_few_bytes_and_rounds_answer(bucket: Path, name: str) -> None:
    size = (bucket / "plain" / "rank0.tap").stat().st_size
    folder, counted = mirrors.mirror(f"file://{bucket}/{name}")
    assert counted.rounds <= 4
    assert counted.bytes < size / 50 + 200_000
    assert Path(folder, "rank0.tap").stat().st_size == size
    assert mirrors.mirror(f"file://{bucket}/{name}")[1] == (1, 0)  # the list alone
    whole, _ = mirrors.mirror(f"file://{bucket}/{name}", whole=True)
    assert Path(whole, "rank0.tap").read_bytes() == (bucket / "plain" / "rank0.tap").read_bytes()


def record_statistics(path: Path, *, bad: int | None, masks: bool = False) -> None:
    """Record statistics of 20 sites over 3000 steps; with a NaN in one of them, then in all."""
    x = np.random.rand(20, 8).astype(np.float32)
    with tt.record(path, keep="stats") as run:
        for step in range(3000):
            x[:, step % 8] = step + 1
            if step == bad:
                x[7, 0] = np.nan
            for i in range(20):
                run.tensor(f"activation/h.{i}", x[i])
            if masks:
                run.tensor("activation/scores", np.array([1.0, -np.inf, -np.inf]))
            if bad is not None and step > bad:
                x[:] = np.nan
            run.step()


@pytest.mark.parametrize("bad", [None, 0, 1500, 2990])
@pytest.mark.parametrize("masks", [False, True])
def test_nan_reads_little_of_the_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int | None, masks: bool
) -> None:
    monkeypatch.setattr(stores, "GAP", 4096)  # as if the run were large
    monkeypatch.setattr(mirrors, "TAIL", 4096)
    record_statistics(tmp_path / "run", bad=bad, masks=masks)
    url = f"file://{tmp_path}/bucket"
    cut(tmp_path / "run", tmp_path / "bucket")
    question = partial(ask, str(PROGRAM), ["nan", url])
    _, counted = mirrors.mirror(url, ask=question)
    size = (tmp_path / "run" / "rank0.tap").stat().st_size
    # of a mask all of its site is read
    assert counted.bytes < (size * 0.6 if masks else size / 3)
    assert counted.rounds <= (5 if masks else 4)
    there = tensortap("nan", url, "--json", folder=tmp_path)
    here = tensortap("nan", "run", "--json", folder=tmp_path)
    assert there.stdout.replace(url, "run") == here.stdout
    assert (there.returncode, there.stderr) == (here.returncode, here.stderr)
    assert mirrors.mirror(url, ask=question)[1] == (1, 0)
    assert len(tt.open(url).stats("activation/h.3")) == 3000


def test_little_is_read_of_a_run_that_is_written_still(tmp_path: Path) -> None:
    x = np.random.rand(1 << 18).astype(np.float32)
    run = tt.record(tmp_path / "run", keep="stats,value")
    for step in range(60):
        x[step] = np.nan if step == 50 else 1
        run.tensor("activation/fc", x)
        run.step()
    run.flush()
    try:
        cut(tmp_path / "run", tmp_path / "bucket")
        size = (tmp_path / "run" / "rank0.tap").stat().st_size
        _, counted = mirrors.mirror(f"file://{tmp_path}/bucket")
        assert counted.bytes < size / 2
        assert counted.rounds <= 5
        here, there = tt.open(tmp_path / "run"), tt.open(f"file://{tmp_path}/bucket")
        assert there.series("activation/fc", "rms")[1].tolist() == (
            here.series("activation/fc", "rms")[1].tolist()
        )
        assert there.info == here.info
        assert len(there.steps) == 60
        np.testing.assert_array_equal(there.tensor("activation/fc", 59, as_numpy=True), x)
        assert there.check().ok
    finally:
        run.close()


def test_a_value_is_read_alone(bucket: Path) -> None:
    here, there = tt.open(bucket / "plain"), tt.open(f"file://{bucket}/cut")
    size = (bucket / "plain" / "rank0.tap").stat().st_size
    for step in (3, 5):
        np.testing.assert_array_equal(
            there.tensor("activation/fc", step, as_numpy=True),
            here.tensor("activation/fc", step, as_numpy=True),
        )
    have = json.loads((there.path / "mirror.json").read_text())["rank0.tap"]["have"]
    assert sum(b - a for a, b in have) < size / 3


def test_an_object_that_was_replaced_is_read_anew(bucket: Path) -> None:
    url = f"file://{bucket}/plain"
    assert "other" not in tt.open(url).names()
    (bucket / "plain" / "rank0.tap").unlink()
    with tt.record(bucket / "plain") as run:
        run.log("other", 1.0)
    assert tt.open(url).names() == ["other"]


def test_a_run_that_grows_in_a_store_is_followed(tmp_path: Path) -> None:
    writer = tt.record(tmp_path / "run")
    sent = 0
    counts = []
    for step in range(4):
        writer.log("loss", float(step))
        writer.step()
        writer.flush()
        content = (tmp_path / "run" / "rank0.tap").read_bytes()
        out = tmp_path / "bucket" / segment_key("rank0.tap", sent)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(content[sent:])
        sent = len(content)
        counts.append(len(tt.open(f"file://{tmp_path}/bucket").series("loss")[0]))
    writer.close()
    assert counts == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("nan",),
        ("health",),
        ("stats", "loss"),
        ("explain",),
        ("export", "loss", "--to", "csv", "-o", "-"),
        ("check",),
    ],
)
def test_commands_take_urls(bucket: Path, words: tuple[str, ...]) -> None:
    command, *rest = words
    here = tensortap(command, "bucket/plain", *rest, folder=bucket.parent)
    url = f"file://{bucket}/cut"
    there = tensortap(command, url, *rest, folder=bucket.parent)
    assert (there.returncode, there.stderr) == (here.returncode, here.stderr)
    cache = os.environ["TENSORTAP_CACHE"]
    assert cache not in there.stdout or command == "check"
    if command not in ("check", "explain", "show"):
        assert there.stdout.replace(url, "bucket/plain") == here.stdout
    if command != "export":
        assert url in there.stdout or command in ("check", "stats")


def test_folders_in_stores_are_listed_and_asked(bucket: Path) -> None:
    url = f"file://{bucket}"
    listed = json.loads(tensortap("ls", url, "--json", folder=bucket).stdout)
    assert {run["run"] for run in listed["runs"]} == {"plain", "cut"}
    runs = tt.open_many(url)
    assert runs.names == [f"{url}/cut", f"{url}/plain"]
    sql = "select run, count(*) as n from points where site = 'loss' group by run order by run"
    pytest.importorskip("duckdb")
    done = tensortap("query", sql, url, "--csv", folder=bucket)
    assert done.stdout == f"run,n\n{url}/cut,10\n{url}/plain,10\n", done.stderr


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/nothing"
    with pytest.raises(FileNotFoundError, match=r"there is no run at file:.*nothing; give"):
        tt.open(url)
    done = tensortap("show", url, folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith(f"tensortap: there is no run at {url}; give")
    done = tensortap("show", "nonsense9://x/y", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    done = tensortap("rm", url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "tensortap: rm removes local runs only; use the tools of the store\n",
    )


def objects(*keys: str, size: int = 100) -> list[Object]:
    return [Object(key, size, "") for key in keys]


def test_hostile_keys_are_left_out_or_refused() -> None:
    bad = ["../rank0.tap", "/etc/rank0.tap", "a/../../rank0.tap", "a//rank0.tap", "rank0.tap/x"]
    assert runs_of(objects(*bad)) == {}
    with pytest.raises(StoreError, match=r"from byte 0 to 100 is missing"):
        runs_of(objects("r/rank00000/000000000100.seg"))
    with pytest.raises(StoreError, match=r"from byte 50 to 100 is there twice"):
        runs_of(
            objects(
                "r/rank00000/000000000000.seg",
                "r/rank00000/000000000050.seg",
            )
        )
    with pytest.raises(StoreError, match=r"has 100 bytes, and its name says another number"):
        runs_of(objects("rank00000/000000000000-000000000007.seg"))  # a name of 0.2.0
    with pytest.raises(StoreError, match=r"is there twice"):
        runs_of(objects("rank0.tap", "rank00000/000000000000.seg"))
    with pytest.raises(StoreError, match="more than 1000000 objects"):
        runs_of(objects("x") * 1_000_001)


def test_segments_of_another_file_are_damage(bucket: Path) -> None:
    record(bucket / "other")
    cut(bucket / "other", bucket / "mixed")
    for path in sorted((bucket / "cut").rglob("*.seg"))[3:4]:
        (bucket / "mixed" / "rank00000" / path.name).write_bytes(path.read_bytes())
    assert not tt.open(f"file://{bucket}/mixed").check().ok


class Broken:
    """A store that does not keep its word."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, ranges: Any) -> Any:
        return [self.answer for _ in ranges]


def test_fewer_bytes_than_asked_for_are_an_error() -> None:
    with pytest.raises(StoreError, match="3 bytes came of the 10 asked for"):
        read_ranges(Broken(b"abc"), [Range("x", 0, 10)])  # type: ignore[arg-type]


def test_near_ranges_are_read_as_one(tmp_path: Path) -> None:
    asked: list[Range] = []

    class Store:
        def get(self, ranges: Any) -> list[bytes]:
            asked.extend(ranges)
            return [bytes(part.end - part.start) for part in ranges]

    wanted = [Range("a", 0, 10), Range("a", 500_000, 500_010), Range("a", 9_000_000, 9_000_001)]
    wanted += [Range("b", 0, 70 << 20), Range("b", 5, 5)]
    read_ranges(Store(), wanted)  # type: ignore[arg-type]
    assert asked[:2] == [Range("a", 0, 500_010), Range("a", 9_000_000, 9_000_001)]
    assert [part.end - part.start for part in asked[2:]] == [32 << 20, 32 << 20, 6 << 20]


def test_errors_of_stores_have_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    text = "https://user:pass@host/x said hunter2hunter2 is wrong"
    assert hide_secrets(text) == "https://host/x said … is wrong"
    folder = FsspecFolder(pytest.importorskip("fsspec"), "memory://secret")

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("key hunter2hunter2")

    monkeypatch.setattr(folder.fs, "find", fails)
    with pytest.raises(StoreError, match=r"^memory://secret: key …$"):
        folder.objects()


def test_only_this_user_may_enter_the_cache(bucket: Path) -> None:
    folder, _ = mirrors.mirror(f"file://{bucket}/plain")
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert (Path(folder) / "rank0.tap").stat().st_mode & 0o077 == 0


# ---- writing


def wait_for(what: Any, seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def joined(bucket: Path, name: str = "rank00000") -> bytes:
    """Return the segments of a file, one behind the other."""
    return b"".join(path.read_bytes() for path in sorted((bucket / name).glob("*.seg")))


def test_the_objects_of_a_run_are_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "SEGMENT", 1 << 20)
    record(tmp_path / "run")
    url = f"file://{tmp_path}/bucket"
    local = (tmp_path / "run" / "rank0.tap").read_bytes()
    sent = uploads.upload(tmp_path / "run", url, follow=False, say=print)
    assert sent == len(local)
    assert joined(tmp_path / "bucket" / "run") == local
    assert len(list((tmp_path / "bucket" / "run" / "rank00000").iterdir())) > 3
    for path in (tmp_path / "bucket" / "run" / "rank00000").iterdir():
        assert int(path.name[:12]) % 64 == 0
    assert uploads.upload(tmp_path / "run", url, follow=True, say=print) == 0  # it is all there
    assert tt.open(f"{url}/run").names() == tt.open(tmp_path / "run").names()


def test_an_upload_goes_on_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "SEGMENT", 1 << 18)
    monkeypatch.setattr(uploads, "PATIENCE", 1)
    record(tmp_path / "run")
    local = (tmp_path / "run" / "rank0.tap").read_bytes()
    url, real, calls = f"file://{tmp_path}/bucket", FsspecFolder.create, []

    def fails(self: FsspecFolder, key: str, content: bytes) -> bool:
        calls.append(key)
        if len(calls) % 3 == 0:
            raise StoreError("503 slow down")
        made = real(self, key, content)
        if len(calls) % 5 == 0:
            raise StoreError("reset: the answer was lost")
        return made

    monkeypatch.setattr(FsspecFolder, "create", fails)
    total = 0
    for _ in range(60):
        try:
            total += uploads.upload(tmp_path / "run", url, follow=False, say=print)
            break
        except StoreError:
            continue
    assert joined(tmp_path / "bucket" / "run") == local


def test_a_run_is_copied_while_it_is_written(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    with tt.record(tmp_path / "run", upload=url, keep="stats") as run:
        wait_for(lambda: uploads.is_alive(tmp_path / "run"))
        run.tensor("x", np.array([1.0, np.nan]))  # sent at once
        run.step()
        run.flush()
        wait_for(lambda: (tmp_path / "bucket" / "run" / "rank00000").exists())
        wait_for(lambda: tt.open(f"{url}/run").first_nonfinite is not None)
    wait_for(lambda: uploads.left(tmp_path / "run") == 0)
    assert joined(tmp_path / "bucket" / "run") == (tmp_path / "run" / "rank0.tap").read_bytes()
    wait_for(lambda: not uploads.is_alive(tmp_path / "run"))


def test_an_uploader_that_was_killed_is_started_again_at_the_end(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    with tt.record(tmp_path / "run", upload=url) as run:
        wait_for((tmp_path / "run" / ".upload").exists)
        os.kill(int((tmp_path / "run" / ".upload").read_text().split("\n")[3]), signal.SIGKILL)
        wait_for(lambda: not uploads.is_alive(tmp_path / "run"))
        run.log("loss", 1.0)
    wait_for(lambda: uploads.left(tmp_path / "run") == 0)
    assert joined(tmp_path / "bucket" / "run") == (tmp_path / "run" / "rank0.tap").read_bytes()


def test_a_program_that_dies_leaves_all_it_wrote_in_the_store(tmp_path: Path) -> None:
    code = (
        "import os, sys, tensortap as tt\n"
        "run = tt.record('run', upload=sys.argv[1])\n"
        "run.log('loss', 1.0)\n"
        "run.step()\n"
        "run.flush()\n"
        "os._exit(1)\n"
    )
    url = f"file://{tmp_path}/bucket"
    subprocess.run([sys.executable, "-c", code, url], cwd=tmp_path, check=False)
    wait_for(lambda: uploads.left(tmp_path / "run") == 0)
    assert tt.open(f"{url}/run").names() == ["loss"]
    assert tt.open(tmp_path / "run").state == "crashed"


def test_the_uploader_is_nobodys_child_and_its_command_has_no_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    with tt.record(tmp_path / "run", upload=url):
        wait_for((tmp_path / "run" / ".upload").exists)
        pid = (tmp_path / "run" / ".upload").read_text().split("\n")[3]
        assert "bucket" not in Path(f"/proc/{pid}/cmdline").read_text()
        with pytest.raises(ChildProcessError):
            os.waitpid(int(pid), os.WNOHANG)
    wait_for(lambda: uploads.left(tmp_path / "run") == 0)


def test_run_uploads_and_download_brings_it_back(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import tensortap as tt\nprint('trained')\n")
    pytest.importorskip("torch")
    record(tmp_path / "runs" / "today", values=False)
    url = f"file://{tmp_path}/bucket"
    done = tensortap("upload", "runs/today", url, folder=tmp_path)
    size = (tmp_path / "runs" / "today" / "rank0.tap").stat().st_size
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{size} bytes sent to {url}/today\n"
    assert " done " in tensortap("ls", "runs", folder=tmp_path).stdout
    status = tmp_path / "runs" / "today" / ".upload"
    status.write_text(f"5000000\n{url}\nno route\n1\n")
    assert " 5.0 MB left, stopped " in tensortap("ls", "runs", folder=tmp_path).stdout
    with open(tmp_path / "runs" / "today" / ".upload.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert " 5.0 MB behind " in tensortap("ls", "runs", folder=tmp_path).stdout
    [listed] = json.loads(tensortap("ls", "runs", "--json", folder=tmp_path).stdout)["runs"]
    assert (listed["upload_behind"], listed["uploading"]) == (5_000_000, False)
    done = tensortap("rm", "runs/today", "--yes", folder=tmp_path)
    assert done.returncode == 0
    assert not (tmp_path / "runs" / "today").exists()
    tensortap("download", f"{url}/today", "runs/today", folder=tmp_path)
    done = tensortap("download", f"{url}/today", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{size} bytes, in today\n")
    here, there = tmp_path / "today" / "rank0.tap", tmp_path / "runs" / "today" / "rank0.tap"
    assert here.read_bytes() == there.read_bytes()
    done = tensortap("download", f"{url}/today", folder=tmp_path)
    assert done.returncode == 3
    assert "is there already; choose another folder" in done.stderr
    done = tensortap("upload", "runs/today", "nowhere", folder=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "tensortap upload: 'nowhere' is no URL like s3://bucket/runs\n",
    )
    with pytest.raises(ValueError, match=r"upload must be a URL like 's3://team/runs'"):
        tt.record(tmp_path / "no", upload="bucket")


def test_a_run_of_the_same_name_is_not_mixed_with_another(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    record(tmp_path / "a" / "run", values=True)
    uploads.upload(tmp_path / "a" / "run", url, follow=False, say=print)
    with tt.record(tmp_path / "b" / "run") as run:
        run.log("loss", 1.0)
    for follow in (False, True):
        with pytest.raises(uploads.OtherRunError, match=r"the store has another rank0\.tap"):
            uploads.upload(tmp_path / "b" / "run", url, follow=follow, say=print)
    record(tmp_path / "c" / "run", values=True)  # longer than what the store has
    with pytest.raises(uploads.OtherRunError, match=r"the store has another rank0\.tap"):
        uploads.upload(tmp_path / "c" / "run", url, follow=False, say=print)


SECRET = "hunter2hunter2"


def everything_of(folder: Path) -> bytes:
    """Return the contents of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_credentials_of_a_url_stand_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        "import os, time, torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(2)).sum().backward()\n"
        "optimizer.step()\n"
        "for _ in range(600):\n"
        "    time.sleep(0.0 if os.path.exists('runs/x/.upload') else 0.05)\n"
    )
    url = f"ftp://someone:{SECRET}@127.0.0.1:1/bucket"  # nobody answers
    words = ("run", "-o", "runs/x", "--upload", url, "train.py")
    done = tensortap(*words, folder=tmp_path)
    status = (tmp_path / "runs" / "x" / ".upload").read_text().splitlines()
    try:
        assert done.returncode == 0, done.stderr
        assert "goes on in the background: ftp://127.0.0.1:1/bucket/x: " in done.stderr
        assert "hunter2" not in done.stderr + done.stdout
        assert b"hunter2" not in Path(f"/proc/{status[3]}/cmdline").read_bytes()
        assert b"hunter2" not in everything_of(tmp_path / "runs")
        assert status[1] == "ftp://127.0.0.1:1/bucket/x"
    finally:
        os.kill(int(status[3]), signal.SIGKILL)
    for words in (("nan", url), ("query", "from points", url), ("download", url)):
        done = tensortap(*words, folder=tmp_path)
        assert done.returncode == 3
        assert "hunter2" not in done.stderr + done.stdout
        assert done.stderr.startswith("tensortap: ftp://127.0.0.1:1/bucket: "), done.stderr
        assert done.stderr.count("\n") == 1
    for one in (url, url.replace(SECRET, "hunter2/hunter2")):  # keys of AWS may hold a slash
        with pytest.raises((StoreError, ModuleNotFoundError)) as raised:
            tt.open(one)
        assert "hunter2" not in str(raised.value)


def test_signatures_and_keys_in_urls_are_hidden() -> None:
    assert hide_secrets("s3://AKIA:abc/d+e@bucket/run") == "s3://bucket/run"
    assert hide_secrets("s3://bucket/a:b@c") == "s3://bucket/a:b@c"
    assert hide_secrets("az://c/run?sv=1&sig=abc%2Bd&x=2") == "az://c/run?sv=1&sig=…&x=2"
    assert hide_secrets("at https://h/x?X-Amz-Signature=00ff failed") == (
        "at https://h/x?X-Amz-Signature=… failed"
    )


def test_many_keys_are_read_in_little_memory() -> None:
    many = [
        Object(f"r{run}/rank{rank:05d}/{part * 100:012d}.seg", 100, "v")
        for run in range(30)
        for rank in range(10)
        for part in range(100)
    ]
    tracemalloc.start()
    try:
        found = runs_of(many)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert len(found) == 30
    assert all(file.size == 10_000 for files in found.values() for file in files)


def test_nothing_is_written_outside_of_a_mirror_or_a_folder(tmp_path: Path) -> None:
    fs = pytest.importorskip("fsspec").filesystem("memory")
    record(tmp_path / "run", values=False)
    content = (tmp_path / "run" / "rank0.tap").read_bytes()
    for key in ("run/rank0.tap", "../out/rank0.tap", "a/../../out/rank0.tap", "a//rank0.tap"):
        fs.store[f"/hostile/{key}"] = fs.store.get("x") or _memory_file(fs, key, content)
    before = set(tmp_path.rglob("*"))
    folder, _ = mirrors.mirror("memory://hostile")
    uploads.download("memory://hostile", tmp_path / "down")
    new = {path for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert {path for path in new if path.name == "rank0.tap"} == {
        Path(folder) / "run" / "rank0.tap",
        tmp_path / "down" / "run" / "rank0.tap",
    }
    assert not any("out" in path.parts for path in new)


def _memory_file(fs: Any, key: str, content: bytes) -> Any:
    from fsspec.implementations.memory import MemoryFile

    return MemoryFile(fs, f"/hostile/{key}", content)


@pytest.mark.parametrize(
    ("url", "library"),
    [("gs://b/run", "gcsfs"), ("az://b/run", "adlfs"), ("hf://b/run", "huggingface")],
)
def test_a_missing_library_is_named(
    url: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORTAP_STORE", "fsspec")
    try:
        __import__({"huggingface": "huggingface_hub"}.get(library, library))
    except ImportError:
        done = tensortap("show", url, folder=tmp_path)
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1
        assert library in done.stderr
        assert sys.executable in done.stderr
        done = tensortap("query", "from points", url, folder=tmp_path)
        assert (done.returncode, library in done.stderr) == (3, True), done.stderr
