"""The dashboard shows what is in the train_dir, to those who may ask, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from sample_factory.benchmark.run_record import RunStatus
from sample_factory.experiments.dashboard import serve
from sample_factory.experiments.dashboard.markup import Markup, element
from sample_factory.experiments.dashboard.server import is_own_host, requested_span
from tests.experiments.experiment_folders import write_experiment, write_population
from tests.experiments.serving import Client, dashboard

VIDEO = bytes(range(256)) * 40
SECRET = "hunter2-0123456789"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def train_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("train_dir")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "private.mp4").write_bytes(b"private")
    (outside / "private.json").write_text('{"env": "private", "algo": "APPO"}')
    good = write_experiment(
        root / "good", wandb_api_key=SECRET, command_line=f"--env=x --wandb_api_key={SECRET}"
    )
    (good / "replay.mp4").write_bytes(VIDEO)
    (good / "link.mp4").symlink_to(outside / "private.mp4")
    (good / "sf_log.txt").write_text(f"export API_KEY={SECRET}\n{SCRIPT}\n")
    write_experiment(
        root / "broken",
        status=RunStatus.FAILED,
        trace=[f'raise ValueError("{SCRIPT}")', f"ValueError: {SCRIPT} token={SECRET}"],
    )
    write_experiment(root / "run" / SCRIPT.replace("/", "|"), env=SCRIPT)
    write_population(root / "pbt")
    linked = write_experiment(root / "linked")
    (linked / "cfg.json").unlink()
    (linked / "cfg.json").symlink_to(outside / "private.json")
    return root


@pytest.fixture(scope="module")
def client(train_dir: Path) -> Iterator[Client]:
    with dashboard(train_dir) as opened:
        yield opened


def test_the_list_names_every_experiment(client: Client) -> None:
    page = client.get("/").text
    assert all(f'href="/experiment/{name}"' in page for name in ("good", "broken", "pbt"))


def test_an_experiment_has_its_numbers_settings_and_video(client: Client) -> None:
    page = client.get("/experiment/good").text
    assert 'data-live="score">3.00<' in page
    assert "<td>0.0001</td>" in page
    assert 'src="/media?e=good&amp;f=replay.mp4"' in page


def test_a_failed_experiment_shows_its_error_and_traceback(client: Client) -> None:
    page = client.get("/experiment/broken").text
    assert "What went wrong" in page
    assert "raise ValueError" in page


def test_text_of_experiments_never_becomes_markup(client: Client) -> None:
    for path in (
        "/",
        "/experiment/broken",
        "/experiment/good",
        f"/experiment/run/{'%3Cscript%3Ealert(1)%3C%7Cscript%3E'}",
    ):
        answer = client.get(path)
        assert answer.status == 200
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;alert(1)" in answer.text


@pytest.mark.parametrize(
    "path", ["/experiment/good", "/experiment/broken", "/api/log?e=good", "/api/facts?e=broken"]
)
def test_secrets_are_never_shown(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 200
    assert SECRET not in answer.text


def test_the_values_of_secret_variables_are_not_shown_either(
    client: Client, train_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "gym_CartPole-v1")
    log = train_dir / "pbt" / "sf_log.txt"
    log.write_text("using gym_CartPole-v1 as the key\n")
    assert client.get("/api/log?e=pbt").text == '{"text": "using <SOME_API_KEY> as the key\\n"}'


def test_curves_are_thinned_values_over_frames_and_seconds(client: Client) -> None:
    curve = json.loads(client.get("/api/curve?e=good&tag=score").text)
    assert curve == {"0": {"steps": [1000, 2000, 3000], "seconds": [0, 60, 120], "values": [1, 2, 3]}}
    assert len(json.loads(client.get("/api/curve?e=good&tag=score&points=2").text)["0"]["values"]) == 2


def test_the_lineage_of_a_population_is_told(client: Client) -> None:
    lineage = json.loads(client.get("/api/lineage?e=pbt").text)
    assert [event["donor"] for event in lineage["events"]] == [1, None]
    assert json.loads(client.get("/api/lineage?e=good").text) is None


def test_experiments_are_compared_by_what_was_typed(client: Client) -> None:
    page = client.get("/compare?e=good&e=pbt&e=nothing").text
    assert "Compare 2 experiments" in page
    assert "<th>experiment</th>" in page


@pytest.mark.parametrize(
    "path",
    [
        "/media?e=good&f=link.mp4",
        "/media?e=good&f=../broken/run.json",
        "/media?e=good&f=run.json",
        "/media?e=..&f=replay.mp4",
        "/experiment/..%2f..%2fetc",
        "/experiment/good/../../etc/passwd",
        "/experiment/linked",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/etc/passwd",
        "/api/curve?e=/etc&tag=score",
    ],
)
def test_nothing_outside_the_train_dir_is_answered_with(client: Client, path: str) -> None:
    assert client.get(path).status == 404


def test_a_request_without_its_experiment_is_refused(client: Client) -> None:
    assert client.get("/api/curve?tag=score").status == 400


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:80", "[::1"]
)
def test_a_foreign_host_name_is_refused(client: Client, host: str) -> None:
    assert client.get("/", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8870", "10.0.0.7:80", "GPU-box"])
def test_addresses_and_own_names_are_answered(host: str) -> None:
    assert is_own_host(host, frozenset({"localhost", "gpu-box"}))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_looking_is_allowed(client: Client, method: str) -> None:
    assert client.get("/", method).status == 405


def test_a_video_is_sent_in_parts(client: Client) -> None:
    answer = client.get("/media?e=good&f=replay.mp4", Range="bytes=100-199")
    assert (answer.status, answer.body) == (206, VIDEO[100:200])
    assert answer.headers["Content-Range"] == f"bytes 100-199/{len(VIDEO)}"
    whole = client.get("/media?e=good&f=replay.mp4")
    assert (whole.status, whole.body, whole.headers["Content-Type"]) == (200, VIDEO, "video/mp4")
    assert client.get("/media?e=good&f=replay.mp4", Range="bytes=99999-").status == 416


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=5-", (5, 99)),
        ("bytes=-10", (90, 99)),
        ("bytes=90-500", (90, 99)),
        ("bytes=0-1,5-6", None),
        (None, None),
    ],
)
def test_ranges_are_cut_to_the_file(header: str | None, span: tuple[int, int] | None) -> None:
    assert requested_span(header, 100) == span


def test_a_head_request_has_no_body(client: Client) -> None:
    answer = client.get("/media?e=good&f=replay.mp4", "HEAD")
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", str(len(VIDEO)))


def test_pages_forbid_foreign_scripts_and_frames(client: Client) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_elements_escape_what_is_not_markup() -> None:
    made = element("p", "<b>", Markup("<i></i>"), [None, "&"], title='"', hidden=True, data_x=None)
    assert made == '<p title="&quot;" hidden>&lt;b&gt;<i></i>&amp;</p>'


def test_an_empty_train_dir_says_how_to_begin(tmp_path: Path) -> None:
    with dashboard(tmp_path) as client:
        assert "No experiments yet" in client.get("/").text


def test_new_experiments_appear(tmp_path: Path) -> None:
    from sample_factory.experiments.dashboard.library import LIST_AGE_SEC, Library

    now = [0.0]
    library = Library(tmp_path, lambda: now[0])
    assert library.experiments() == []
    write_experiment(tmp_path / "new")
    assert library.experiments() == []
    now[0] += LIST_AGE_SEC + 1
    assert [experiment.name for experiment in library.experiments()] == ["new"]


def test_a_taken_port_suggests_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve.main([f"--train_dir={tmp_path}", f"--port={port}"]) == 2
    assert f"try --port={port + 1}" in capsys.readouterr().err


@pytest.mark.processes
def test_the_command_serves_the_loopback_address_until_it_is_told_to_stop(train_dir: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sample_factory.cli",
        "dashboard",
        f"--train_dir={train_dir}",
        "--port=0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.rsplit(":", 1)[1].split("/")[0])
        with urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            assert answer.status == 200
        with socket.socket() as other:
            # Another address of the same machine is not listened on.
            assert other.connect_ex(("127.0.0.2", port)) == errno.ECONNREFUSED
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
