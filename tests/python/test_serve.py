"""`tensortap serve`: what it answers, what it refuses, and what it survives."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import answer
from served import Served, serve

import tensortap as tt


def record(path: Path, steps: int = 20, bad: int | None = None) -> Path:
    with tt.record(path) as run:
        for step in range(steps):
            run.log("train/loss", math.nan if step == bad else 1 / (step + 1))
            run.tensor("activation/fc", np.full(4, float(step), np.float32))
            run.step()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    record(made / "good")
    record(made / "deep" / "bad one", bad=7)
    (made / "secret.txt").write_text("swordfish")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Served:
    with serve(folder) as started:
        yield started


def test_it_listens_on_loopback_and_prints_a_token(server: Served) -> None:
    assert server.lines[0].startswith("2 runs in ")
    assert server.address.startswith("http://127.0.0.1:")
    assert len(server.token) == 32
    with serve(Path(".")) as other:
        assert other.token != server.token
        title = json.loads(other.ask("runs")[1])["folder"]
        assert title == Path.cwd().name  # not "."


def test_inside_ssh_it_prints_the_tunnel(folder: Path) -> None:
    with serve(folder, SSH_CONNECTION="10.0.0.1 5000 10.0.0.2 2222", USER="ann") as started:
        port = started.port
        line = (
            f"from your own machine first: ssh -N -L {port}:127.0.0.1:{port} -p 2222 ann@10.0.0.2"
        )
        assert started.lines[-1] == line


def test_the_list_names_every_run(server: Served) -> None:
    status, body = server.ask("runs")
    listed = json.loads(body)["list"]
    assert status == 200
    assert {one["run"] for one in listed} == {"good", "deep/bad one"}
    assert {one["state"] for one in listed} == {"finished"}
    status, page = server.ask("")
    assert status == 200
    assert page.startswith(b"<!doctype html>")
    assert b"connect-src 'self'" in page


def test_a_page_and_its_parts_are_those_of_the_report(server: Served, folder: Path) -> None:
    status, page = server.ask("", of="deep/bad one")
    assert status == 200
    assert b'"pending":true' in page
    _, body = server.ask("block", of="deep/bad one", name="facts")
    facts = json.loads(body)
    assert "train/loss: the first NaN at step 7" in facts["answers"][0]["sentence"]
    _, body = server.ask("block", of="deep/bad one", name="0/table")
    names = [site["name"] for site in json.loads(body)["sites"]]
    got = server.data("deep/bad one", add="0/numbers/value,0/tensors/rms")
    series = got["runs"][0]["tensors"]["series"]
    assert [names[site] for site, _, _ in series] == ["activation/fc"]
    planes = got["body"][20 * 4 : 40 * 4]
    bits = sum(
        np.frombuffer(planes[i * 20 : i * 20 + 20], np.uint8).astype("<u4") << (24 - 8 * i)
        for i in range(4)
    )
    rms = tt.open(folder / "deep" / "bad one").series("activation/fc", "rms")[1]
    assert bits.astype("<u4").view("<f4").tolist() == rms.astype(np.float32).tolist()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/secret.txt",
        "/{t}/secret.txt",
        "/{t}/../secret.txt",
        "/{t}/%2e%2e/secret.txt",
        "/{t}/..%2fsecret.txt",
        "/{t}/?of=../{f}/secret.txt",
        "/{t}/?of=..%2f..%2fetc",
        "/{t}/?of=secret.txt",
        "/{t}/?of=/etc",
        "/{t}/?of=good%2f..%2f..%2fx",
        "/{t}/?of=good%00",
        "/{t}/block?of=good&name=../../secret.txt",
        "/{t}/block?of=good&name=1/table",
        "/{t}/data?of=good&add=0/numbers/%2e%2e",
        "/{t}/?unknown=1",
        "/{t}x/",
        "//{t}/",
    ],
)
def test_nothing_outside_of_the_runs_is_served(server: Served, folder: Path, path: str) -> None:
    status, body = server.ask_raw(path.format(t=server.token, f=folder.name))
    assert status in (400, 401, 404)
    assert b"swordfish" not in body
    assert b"root:" not in body


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", ""])
def test_another_host_is_refused(server: Served, host: str) -> None:
    assert server.ask("runs", headers={"Host": host})[0] in (400, 421)


def test_names_of_this_machine_are_accepted(server: Served) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:7007"):
        assert server.ask("runs", headers={"Host": host})[0] == 200


def test_a_page_of_another_origin_is_refused(server: Served) -> None:
    own = f"http://127.0.0.1:{server.port}"
    assert server.ask("runs", headers={"Origin": own})[0] == 200
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        assert server.ask("runs", headers={"Origin": origin})[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(server: Served, method: str) -> None:
    assert server.ask("runs", method)[0] in (405, 501)
    assert server.ask("runs", "HEAD") == (200, b"")


def test_huge_and_broken_requests_are_refused(server: Served) -> None:
    assert server.ask("runs", headers={"X-Big": "x" * 60000})[0] in (413, 431)
    assert server.ask_raw(f"/{server.token}/?of=" + "a" * 9000)[0] == 414
    for text in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n" * 50):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(text)
            raw.settimeout(2)
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                raw.recv(1000)
    assert server.ask("runs")[0] == 200


def test_many_and_slow_clients_leave_it_alive(server: Served) -> None:
    before = server.memory()
    clients = []
    try:
        for _i in range(1000):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", server.port))
            clients.append(client)
        time.sleep(0.3)
        for client in clients:
            with contextlib.suppress(OSError):  # refused: as good
                client.send(f"GET /{server.token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(1)  # nobody reads
        assert server.is_alive()
        assert server.memory() - before < 300
    finally:
        for client in clients:
            client.close()
    for _ in range(50):
        try:
            assert server.ask("runs")[0] == 200
            break
        except (ConnectionError, TimeoutError):
            time.sleep(0.1)
    else:
        pytest.fail("no answer any more")


def test_a_connection_stays_open_for_the_next_request(server: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", f"/{server.token}/runs")
    assert connection.getresponse().read()
    first = connection.sock
    for method in ("GET", "HEAD", "GET"):
        connection.request(method, f"/{server.token}/runs")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        assert connection.sock is first
    connection.close()


def test_idle_connections_shut_nobody_out(server: Served) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(600)]
    try:
        assert server.ask("runs")[0] == 200  # at once, not after the time that they may be silent
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        kept.request("GET", f"/{server.token}/runs")
        assert kept.getresponse().read()
        idle += [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        kept.request("GET", f"/{server.token}/runs")  # the others were silent for longer
        assert kept.getresponse().status == 200
        kept.close()
    finally:
        for client in idle:
            client.close()


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("*;q=0.3, gzip; q=0.0", False),
        ("identity", False),
        ("xgzip", False),
    ],
)
def test_an_answer_is_packed_only_for_those_who_take_it(
    server: Served, accepted: str, packed: bool
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", f"/{server.token}/", headers={"Accept-Encoding": accepted})
    answer = connection.getresponse()
    answer.read()
    assert (answer.getheader("Content-Encoding") == "gzip") == packed
    connection.close()


def test_a_run_is_listed_once_whatever_leads_to_it(tmp_path: Path) -> None:
    record(tmp_path / "runs" / "one", steps=2)
    (tmp_path / "runs" / "again").symlink_to(".")
    (tmp_path / "runs" / "alias").symlink_to("one")
    (tmp_path / "a-link").symlink_to("runs")
    listed = answer("ls", "runs", folder=tmp_path)["runs"]
    assert [one["run"] for one in listed] == ["runs/one"]
    with serve(tmp_path) as started:
        assert [one["run"] for one in json.loads(started.ask("runs")[1])["list"]] == ["runs/one"]


def test_a_tick_brings_only_what_is_new(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run, serve(tmp_path / "run") as started:
        run.log("loss", 1.0)
        run.flush()
        got = started.data(add="0/numbers/value")
        for step in range(1, 301):
            run.step()
            run.log("loss", float(step))
        run.flush()
        more = started.data(since=got["cursor"], have="0/numbers/value")
        assert more["runs"][0]["state"] == "live"
        assert more["runs"][0]["numbers"]["from"] <= 1
        run.step()
        run.log("loss", 7.0)
        run.flush()
        last = started.data(since=more["cursor"], have="0/numbers/value")
        assert last["runs"][0]["numbers"]["steps"] == [301]
        assert len(last["body"]) == 4 + 1  # a number, and whether it is NaN
        again = started.data(since=last["cursor"], have="0/numbers/value")
        assert (again["cursor"], again["body"]) == (last["cursor"], b"")


def test_runs_may_be_deleted_cut_damaged_and_replaced(tmp_path: Path) -> None:
    for name in ("deleted", "cut", "damaged", "replaced", "future"):
        record(tmp_path / name, steps=300)
    ask = "0/numbers/value"
    with serve(tmp_path) as started:
        for name in ("deleted", "cut", "damaged", "replaced", "future"):
            assert started.data(name, add=ask)["runs"][0]["points"] >= 600
        shutil.rmtree(tmp_path / "deleted")
        file = tmp_path / "cut" / "rank0.tap"
        os.truncate(file, file.stat().st_size // 2)
        file = tmp_path / "damaged" / "rank0.tap"
        with file.open("r+b") as raw:
            raw.seek(1000)
            raw.write(b"\x55" * 3000)
        shutil.rmtree(tmp_path / "replaced")
        record(tmp_path / "replaced", steps=5)
        file = tmp_path / "future" / "rank0.tap"
        data = bytearray(file.read_bytes())
        for at in range(0, len(data), 64):
            if data[at : at + 4] == b"TAP\xb1":
                data[at + 4] = 99  # of another version
        file.write_bytes(data)
        status, body = started.ask("data", of="deleted", add=ask)
        assert (status, b"no run 'deleted'" in body) == (404, True)
        assert started.data("cut", add=ask)["runs"][0]["points"] < 600
        for name in ("damaged", "future"):
            assert started.ask("data", of=name, add=ask)[0] in (200, 404)
        assert started.data("replaced", add=ask)["runs"][0]["points"] <= 15
        two = {"of": "cut", "with": "replaced"}
        before = json.loads(started.ask("block", name="facts", **two)[1])["runs"][1]["points"]
        shutil.rmtree(tmp_path / "replaced")
        record(tmp_path / "replaced", steps=9)
        after = json.loads(started.ask("block", name="facts", **two)[1])["runs"][1]["points"]
        assert before < after  # also the second of two runs
        assert started.ask("runs")[0] == 200


def test_a_folder_that_is_a_run_has_its_page_at_once(tmp_path: Path) -> None:
    record(tmp_path / "run")
    with serve(tmp_path / "run") as started:
        assert b'"live":true' in started.ask("")[1]
        assert started.ask("", of="other")[0] == 404


def test_wrong_arguments_say_what_to_do(tmp_path: Path) -> None:
    from commands import tensortap

    done = tensortap("serve", tmp_path / "nothing", folder=tmp_path)
    assert (done.returncode, "give a folder that holds runs" in done.stderr) == (3, True)
    done = tensortap("serve", tmp_path, "--port", "70000", folder=tmp_path)
    assert (done.returncode, "a number below 65536" in done.stderr) == (2, True)
    done = tensortap("serve", tmp_path, "--host", "no.such.host.invalid", folder=tmp_path)
    assert (done.returncode, "give an address of this machine" in done.stderr) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = tensortap("serve", tmp_path, "--port", port, folder=tmp_path)
    assert (done.returncode, "choose another --port" in done.stderr) == (3, True)


@pytest.mark.heavy
def test_a_thousand_runs_are_listed(tmp_path: Path) -> None:
    record(tmp_path / "run0", steps=3)
    for i in range(1, 1000):
        shutil.copytree(tmp_path / "run0", tmp_path / f"run{i}")
    with serve(tmp_path) as started:
        start = time.monotonic()
        assert len(json.loads(started.ask("runs")[1])["list"]) == 1000
        assert time.monotonic() - start < 5
        assert started.data("run777", add="0/numbers/value")["runs"][0]["points"] == 6


@pytest.mark.heavy
def test_a_killed_program_is_shown_as_crashed(tmp_path: Path) -> None:
    script = "import os, time, tensortap as tt\nrun = tt.record('run')\n" + (
        "run.log('loss', 1.0)\nrun.flush()\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    with serve(tmp_path) as started:
        assert started.data("run", add="0/numbers/value")["runs"][0]["state"] == "live"
        child.kill()
        child.wait()
        assert started.data("run", add="0/numbers/value")["runs"][0]["state"] == "crashed"
        answers = json.loads(started.ask("block", of="run", name="facts")[1])["answers"]
        assert ("fault", "killed") in [(one["kind"], one["rule"]) for one in answers]
