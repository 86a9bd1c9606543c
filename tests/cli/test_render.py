"""``mnistpro render``: stored episodes become pictures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mnistpro_jax.cli import main
from tests.cli.runs import COUNT, one_line


@pytest.mark.parametrize(
    ("options", "suffixes"),
    [([], [".png", ".gif"]), (["--both"], [".png", ".gif"]), (["--gif"], [".gif"]), (["--sheet"], [".png"])],
)
def test_render_writes_what_it_says(
    folders: dict[int, Path],
    tmp_path: Path,
    options: list[str],
    suffixes: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for source in (folders[2], folders[2] / "episodes.jsonl"):
        capsys.readouterr()
        assert main(["render", str(source), "--episode", "3", "--out", str(tmp_path), *options]) == 0
        written = [Path(line) for line in capsys.readouterr().out.splitlines()]
        assert written == [tmp_path / f"episode-0003{suffix}" for suffix in suffixes]
        assert sorted(tmp_path.iterdir()) == sorted(written)


def test_render_puts_pictures_beside_the_run(folders: dict[int, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("summary.json", "episodes.jsonl"):
        shutil.copy(folders[1] / name, run / name)
    assert main(["render", str(run), "--episode", "0", "--sheet"]) == 0
    drawn = (run / "pictures" / "episode-0000.png").read_bytes()
    assert drawn == (folders[1] / "pictures" / "episode-0000.png").read_bytes()
    assert main(["render", str(run), "--episode", "0", "--sheet", "--remembered"]) == 0


def test_render_refuses_what_it_cannot_draw(
    folders: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", str(folders[1]), "--episode", str(COUNT)]) == 2
    assert f"it holds episodes 0 to {COUNT - 1}" in one_line(capsys)
    assert main(["render", str(tmp_path / "nothing"), "--episode", "0"]) == 2
    assert "no episode file" in one_line(capsys)

    episodes = tmp_path / "episodes.jsonl"
    text = (folders[1] / "episodes.jsonl").read_text()
    episodes.write_text(text)
    assert main(["render", str(tmp_path), "--episode", "0"]) == 2
    assert "no summary.json" in one_line(capsys)
    for broken in ("{", "[]", "{}", '{"window": "64", "outline": true}'):
        (tmp_path / "summary.json").write_text(broken)
        assert main(["render", str(tmp_path), "--episode", "0"]) == 2
        assert "summary.json" in one_line(capsys)

    shutil.copy(folders[1] / "summary.json", tmp_path / "summary.json")
    episodes.write_text(text[: len(text) // 2])
    assert main(["render", str(tmp_path), "--episode", "0"]) == 2
    assert "episodes.jsonl, line" in one_line(capsys)
    first = json.loads(text.splitlines()[0])
    other = {**first, "labels": [(first["labels"][0] + 1) % 10]}
    for record, expected in (
        (other, "came from"),
        ({**first, "indices": [10_000]}, "images 0..9999"),
        ({**first, "source": "idx:/nowhere"}, "/nowhere"),
    ):
        episodes.write_text(json.dumps(record) + "\n")
        assert main(["render", str(tmp_path), "--episode", "0"]) == 2
        assert expected in one_line(capsys)


def test_render_names_the_runs_of_a_sweep(
    sweep: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["render", str(sweep[0]), "--episode", "0"]) == 2
    assert "confidence-0.99" in one_line(capsys)
    assert main(["render", str(sweep[0] / "confidence-0.99"), "--episode", "0", "--out", str(tmp_path)]) == 0


def test_render_does_not_load_jax(folders: dict[int, Path], tmp_path: Path) -> None:
    arguments = ["render", str(folders[1]), "--episode", "0", "--out", str(tmp_path)]
    code = f"import sys; from mnistpro_jax.cli import main; main({arguments}); sys.exit('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == 2
