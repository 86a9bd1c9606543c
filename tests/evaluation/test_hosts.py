"""Several processes on the loopback address share an evaluation; who dies costs what it had not finished."""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.data import idx
from mnistpro_jax.evaluation import hosts
from mnistpro_jax.evaluation.parts import Parts, PartsError
from mnistpro_jax.evaluation.request import EvaluationRequest
from tests.episodes import mnist_test
from tests.evaluation.processes import finish, free_port, start

EPISODES, PART = 45, 8  # six parts, the last of five episodes
HEARTBEAT = 5


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IDX files of 30 test images."""
    folder = tmp_path_factory.mktemp("idx")
    full = mnist_test()
    idx.write(folder / "t10k-images-idx3-ubyte", full.images[:30])
    idx.write(folder / "t10k-labels-idx1-ubyte", full.labels[:30].astype(np.uint8))
    return folder


def command(images: Path, out: Path, process: int | None = None, port: int = 0) -> list[str]:
    arguments = [
        "evaluate",
        "--agent",
        "random",
        "--episodes",
        str(EPISODES),
        "--data",
        f"idx:{images}",
        "--json",
    ]
    arguments += ["--budget", "6", "--part-size", str(PART), "--out", str(out)]
    if process is not None:
        arguments += ["--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process", str(process)]
        arguments += ["--heartbeat", str(HEARTBEAT), "--join-timeout", "100"]
    return arguments


@pytest.fixture(scope="module")
def story(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """One process alone, this one; then two, of which one dies with nothing done, and the other when it has done five
    parts of six; then two who finish."""
    home = tmp_path_factory.mktemp("hosts")
    alone, shared = home / "alone", home / "shared"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(command(images, alone)) == 0

    port = free_port()
    first = start("-m", "tests.evaluation.dying_host", "5", *command(images, shared, 0, port))
    second = start("-m", "tests.evaluation.dying_host", "before", *command(images, shared, 1, port))
    died = [finish(first)[0], finish(second)[0]]
    left = sorted(path.name for path in shared.rglob("*") if path.is_file())
    survived = home / "survived"
    shutil.copytree(shared, survived)

    port = free_port()
    both = [start("-m", "mnistpro_jax", *command(images, shared, process, port)) for process in (0, 1)]
    ended = [finish(process) for process in both]
    return {
        "alone": alone,
        "printed": printed.getvalue(),
        "shared": shared,
        "survived": survived,
        "died": died,
        "left": left,
        "ended": ended,
    }


def test_a_survivor_does_the_work_of_the_dead(story: dict[str, object]) -> None:
    """Three parts were its own; it was killed in its turn at the fifth."""
    assert story["died"] == [-9, -9]
    left = story["left"]
    assert isinstance(left, list)
    assert sum(name.startswith("part-") for name in left) == 5
    assert left[-1] == "plan.json"


def test_the_rerun_does_what_is_missing_and_one_process_merges(story: dict[str, object]) -> None:
    ended = story["ended"]
    assert isinstance(ended, list)
    assert [code for code, _, _ in ended] == [0, 0], ended
    for _, _, errors in ended:
        assert "5 of 6 parts are there already" in errors
    assert "process 1 of 2 is done" in ended[1][2]
    assert ended[1][1] == ""


def test_results_are_those_of_one_process(story: dict[str, object]) -> None:
    alone, shared = Path(str(story["alone"])), Path(str(story["shared"]))
    assert sorted(path.name for path in shared.iterdir()) == ["episodes.jsonl", "summary.json"]
    for name in ("episodes.jsonl", "summary.json"):
        assert (alone / name).read_bytes() == (shared / name).read_bytes()
    assert story["ended"][0][1] == story["printed"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--seed", "1"], "seed = 0, but 1 is asked for"),
        (["--budget", "7"], "budget = 6, but 7 is asked for"),
        (["--episodes", "46"], "episodes = 45, but 46 is asked for"),
        (["--part-size", "9"], "part_size = 8, but 9 is asked for"),
    ],
)
def test_parts_of_another_request_are_refused(
    story: dict[str, object],
    images: Path,
    changes: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(str(story["survived"]))
    before = sorted(folder.rglob("*"))
    assert main([*command(images, folder), *changes]) == 2
    assert message in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_a_damaged_part_is_named(story: dict[str, object], images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    shutil.copytree(Path(str(story["survived"])) / "parts", folder)
    request = EvaluationRequest(agent="random", episodes=EPISODES, source=f"idx:{images}", budget=6)
    parts = Parts(folder, request, None, 2)
    assert parts.part_size == PART
    assert parts.missing() == [5]
    assert [len(run) for run in parts.load(0).runs] == [PART]
    shutil.copy(folder / "part-00000.npz", folder / "part-00005.npz")
    with pytest.raises(PartsError, match=r"part-00005\.npz does not hold 5 episodes"):
        parts.load(5)
    path = folder / "part-00001.npz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(PartsError, match=r"part-00001\.npz is not a whole part"):
        parts.load(1)
    # Not only what is cut off: a byte in the archive's own tables makes its reader raise what it likes.
    whole = (folder / "part-00000.npz").read_bytes()
    where = whole.rindex(b"PK\x01\x02")
    path.write_bytes(whole[: where + 6] + b"\xc5" + whole[where + 7 :])
    with pytest.raises(PartsError, match=r"part-00001\.npz is not a whole part .*zip file version"):
        parts.load(1)
    with pytest.raises(ValueError, match="part_size is 0; expected 1 or more"):
        Parts(tmp_path / "new", request, 0, 1)
    for text in ("{", '{"part_size": 0}'):
        (folder / "plan.json").write_text(text)
        with pytest.raises(PartsError, match="remove"):
            Parts(folder, request, None, 2)


def test_a_damaged_part_is_found_before_anything_is_played(
    story: dict[str, object], images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(Path(str(story["survived"])), tmp_path / "run")
    path = tmp_path / "run" / "parts" / "part-00001.npz"
    path.write_bytes(path.read_bytes()[:-100])
    assert main(command(images, tmp_path / "run")) == 2
    assert "part-00001.npz is not a whole part" in capsys.readouterr().err
    assert not (tmp_path / "run" / "parts" / "part-00005.npz").exists()


def test_nobody_there(images: Path, tmp_path: Path) -> None:
    """Process 1 finds no process 0: one sentence, in time, and nothing written."""
    arguments = command(images, tmp_path / "out", 1, free_port())
    arguments[-1] = "3"
    code, output, errors = finish(start("-m", "mnistpro_jax", *arguments))
    assert code == 2
    assert output == ""
    last = errors.splitlines()[-1]
    assert last.startswith("mnistpro: error: the processes did not all meet at 127.0.0.1:")
    assert "within 3 s" in last
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --out DIR as well"),
        (["--out", "OUT", "--coordinator", "nonsense"], "the coordinator is 'nonsense'; expected HOST:PORT"),
        (["--out", "OUT", "--process", "2", "--processes", "2"], "this is process 2 of 2; expected 0 to 1"),
        (["--out", "OUT"], "JAX finds no cluster here"),
    ],
)
def test_nonsense_is_one_line(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in (hosts.COORDINATOR, hosts.PROCESSES, hosts.PROCESS):
        monkeypatch.delenv(variable, raising=False)
    # The command is checked before JAX is asked, and this process has used JAX: let it say what it says without one.
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    options = [str(tmp_path / "out") if option == "OUT" else option for option in options]
    assert main(["evaluate", "--agent", "random", "--distributed", *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_alone_one_meets_oneself() -> None:
    assert hosts.meet() == [0]
