"""The shipped agents: what is in the package, that it scores what the tables say, and what it refuses."""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.score import parameters
from mnistpro_jax import data
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.explorers import PriorCoverage, Sight
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.agents.learned.explorer import (
    FLOOR,
    PLANNED,
    LearnedExplorer,
    features,
    gains_in_reach,
    num_features,
    planned_moves,
)
from mnistpro_jax.agents.learned.glimpse import empty, look, sensor
from mnistpro_jax.agents.reader import full_read, native_counts
from mnistpro_jax.env.types import FusedCanvas, Observation
from mnistpro_jax.evaluation.evaluate import evaluate
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.runs.intervals import wilson

WEIGHTS = Path(shipped.__file__).parent / "weights"

posterior = jax.jit(lambda reader, view: reader.posterior(view))
shown_to = jax.jit(features, static_argnums=0)
look_at = jax.jit(look, static_argnums=(0, 2))
act = jax.jit(lambda agent, key, seen, memory: agent.act(key, seen, memory))


@functools.cache
def _loaded() -> Any:
    return shipped.load_reader()[0]


@pytest.fixture
def reader() -> Any:
    return _loaded()


def _observation(geometry: Geometry, view: Any, xy: tuple[int, int]) -> Observation:
    step, left, last = (jnp.asarray(value, jnp.int32) for value in (0, 36, -1))
    return Observation(view, jnp.asarray(xy, jnp.int32), step, left, last)


def test_weights_are_small_and_say_where_they_come_from() -> None:
    files = sorted(WEIGHTS.glob("*.npz"))
    assert {file.stem for file in files} >= {"reader", "canvas", "glimpse", "memoryless"}
    for file in files:
        assert file.stat().st_size <= 2 * 2**20
        _, about, _ = shipped.load(file.stem)
        assert {"config", "seed", "commit", "world"} <= about.keys()
        assert len(about["commit"]) == 40


@pytest.mark.parametrize(
    ("name", "size"),
    [("reader", 620_074), ("canvas", 359_110), ("glimpse", 514_640), ("memoryless", 514_640)],
)
def test_parameters_are_as_many_as_stated(name: str, size: int) -> None:
    params, _, _ = shipped.load(name)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == size
    page = (Path(__file__).parents[2] / "docs" / "learned_agents.md").read_text(encoding="utf-8")
    assert f"{size:,}" in page


def test_the_reader_reads_whole_canvases(reader: Any) -> None:
    test = data.load("mnist", "test")
    counts = native_counts(test.images[:2000])
    read_all = jax.jit(jax.vmap(lambda reader, stroke: full_read(reader, stroke).classes, (None, 0)))
    read = np.asarray(read_all(reader, jnp.asarray(counts)))
    np.testing.assert_allclose(np.sum(read, axis=-1), 1, atol=1e-5)
    assert np.mean(np.argmax(read[:, 0], axis=-1) == test.labels[:2000]) >= 0.99


def test_the_reader_reads_each_digit_by_itself(reader: Any) -> None:
    counts = native_counts(data.load("mnist", "test").images[:3])
    wide = jnp.asarray(np.concatenate(list(counts), axis=1))
    revealed = jnp.full(wide.shape, 64, jnp.uint8)
    together = posterior(reader, FusedCanvas(wide, revealed)).classes
    alone = [
        posterior(reader, FusedCanvas(one, np.full(one.shape, 64, np.uint8))).classes[0] for one in counts
    ]
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-5)


def test_nothing_seen_says_little(reader: Any) -> None:
    nothing = jnp.zeros((28, 28), jnp.uint8)
    assert float(posterior(reader, FusedCanvas(nothing, nothing)).confidence) < 0.6


@pytest.mark.parametrize("num_digits", [1, 2, 3])
def test_one_explorer_serves_any_number_of_digits(num_digits: int, reader: Any) -> None:
    geometry = Geometry(width=224 * num_digits, num_digits=num_digits)
    rng = np.random.default_rng(0)
    revealed = rng.integers(0, 65, (28, 28 * num_digits)).astype(np.uint8)
    view = FusedCanvas(jnp.asarray(revealed // 2), jnp.asarray(revealed))
    params, network, _ = shipped.load_actor()
    explorer = LearnedExplorer(params, geometry, network)

    @jax.jit
    def decide(explorer: LearnedExplorer, sight: Sight) -> tuple[jax.Array, jax.Array]:
        direction, _ = explorer.direction(jax.random.key(0), sight, ())
        return direction, geometry.useful_moves(sight.observation.xy)

    for xy in ((0, 0), (geometry.limit_x, geometry.limit_y), (50, 60)):
        seen = _observation(geometry, view, xy)
        sight = Sight(seen, reader, posterior(reader, view), jnp.float32(0.95))
        shown = shown_to(geometry, sight)
        assert (shown.shape, shown.dtype) == ((num_features(),), jnp.float32)
        assert np.isfinite(shown).all()
        direction, useful = decide(explorer, sight)
        assert useful[int(direction)]


def test_features_do_not_depend_on_a_far_seen_digit(reader: Any) -> None:
    """What matters of another digit is how sure it is, not what it is."""
    geometry = Geometry(width=448, num_digits=2)
    counts = native_counts(data.load("mnist", "test").images[:3])
    shown = []
    for other in (1, 2):
        stroke = jnp.asarray(np.concatenate([counts[0], counts[other]], axis=1))
        view = FusedCanvas(stroke, jnp.full(stroke.shape, 64, jnp.uint8))
        beliefs = dataclasses.replace(posterior(reader, view), classes=jnp.full((2, 10), 0.1, jnp.float32))
        shown.append(
            shown_to(
                geometry, Sight(_observation(geometry, view, (0, 80)), reader, beliefs, jnp.float32(0.95))
            )
        )
    np.testing.assert_array_equal(*shown)


def test_the_explorer_knows_what_a_planner_would_do(reader: Any) -> None:
    """One of its four values is highest in the direction that the planner takes."""
    geometry = Geometry()
    planner = PriorCoverage(jnp.float32(0.7), jnp.float32(FLOOR), geometry)
    rng = np.random.default_rng(1)

    @jax.jit
    def both(planner: PriorCoverage, sight: Sight) -> tuple[jax.Array, jax.Array]:
        doubt = 1 - sight.posterior.confidences[0]
        gains = (FLOOR + (1 - FLOOR) * doubt) * gains_in_reach(geometry, sight)[0]
        return planned_moves(gains)[1][PLANNED], planner.direction(jax.random.key(0), sight, ())[0]

    for xy in ((0, 0), (160, 160), (50, 60), (96, 0), (13, 150)):
        revealed = jnp.asarray(64 * (rng.random((28, 28)) < 0.5).astype(np.uint8))
        view = FusedCanvas(revealed // 3, revealed)
        sight = Sight(_observation(geometry, view, xy), reader, posterior(reader, view), jnp.float32(0.95))
        values, chosen = both(planner, sight)
        assert float(values[int(chosen)]) == pytest.approx(float(np.max(values)), rel=1e-4)


@pytest.mark.parametrize("num_digits", [2, 3])
def test_a_glimpse_goes_to_the_memory_of_its_digit(num_digits: int) -> None:
    geometry = Geometry(width=224 * num_digits, num_digits=num_digits)
    params, network, _ = shipped.load_glimpse("glimpse")
    view = jnp.asarray(np.random.default_rng(0).integers(0, 2, (64, 64)), jnp.uint8)
    memory = empty(geometry, network)
    for digit, x in ((0, 0), (1, 224 + 96), (num_digits - 1, geometry.limit_x)):
        after, moves, _ = look_at(network, params, geometry, memory, _observation(geometry, view, (x, 80)))
        changed = np.any(np.asarray(after.core) != np.asarray(memory.core), axis=-1)
        assert changed.tolist() == [number == digit for number in range(num_digits)]
        assert (np.asarray(moves)[2:] > -1e8).any()
        memory = after


def test_a_glimpse_does_not_depend_on_the_number_of_digits() -> None:
    params, network, _ = shipped.load_glimpse("glimpse")
    view = jnp.asarray(np.random.default_rng(0).integers(0, 2, (64, 64)), jnp.uint8)
    alone, wide = Geometry(), Geometry(width=448, num_digits=2)
    one, *_ = look_at(network, params, alone, empty(alone, network), _observation(alone, view, (96, 80)))
    two, *_ = look_at(network, params, wide, empty(wide, network), _observation(wide, view, (224 + 96, 80)))
    np.testing.assert_allclose(one.answers[0], two.answers[1], atol=1e-5)


def test_without_a_memory_nothing_is_carried() -> None:
    """What the memoryless agent does depends on the window alone, not on what it was shown before."""
    geometry = Geometry()
    agent = make_agent("memoryless", geometry)
    rng = np.random.default_rng(0)
    views = [jnp.asarray(rng.integers(0, 2, (64, 64)), jnp.uint8) for _ in range(3)]
    key = jax.random.key(0)
    last = _observation(geometry, views[2], (96, 80))
    done = []
    for earlier in (views[:1], views[1:2], views[:2]):
        memory = agent.init(key)
        for view in earlier:
            _, memory = act(agent, key, _observation(geometry, view, (64, 48)), memory)
        done.append(act(agent, key, last, memory))
    for other in done[1:]:
        jax.tree.map(np.testing.assert_array_equal, done[0], other)


def test_the_sensor_leaves_the_neighbour_out() -> None:
    geometry = Geometry(width=448, num_digits=2)
    sense = jax.jit(sensor, static_argnums=0)
    shown = np.asarray(sense(geometry, jnp.ones((64, 64), jnp.uint8), jnp.asarray([180, 0], jnp.int32)))
    # The centre is at 212, in the first digit; cells of four pixels from 224 on belong to the second.
    np.testing.assert_array_equal(shown.reshape(16, 16)[0], [1] * 11 + [0] * 5)


# Accuracy and steps of 10,000 episodes, as docs/learned_agents.md states them; how many of the first 200 of the same
# list are right, and how many steps they take (`mnistpro evaluate --agent NAME --level N --episodes 200`).
FIRST = 200
STATED = {
    ("planner", 1): (0.981, 3.08, 198, 638),  # at 0.95, like all but the memoryless
    ("canvas", 1): (0.982, 3.06, 199, 602),
    ("glimpse", 1): (0.985, 4.55, 198, 875),
    ("memoryless", 1): (0.8184, 3.60, 156, 624),  # at 0.6, its own confidence
    ("planner", 2): (0.971, 13.47, 194, 2637),
    ("canvas", 2): (0.970, 12.22, 192, 2269),
    ("glimpse", 2): (0.956, 20.88, 193, 4231),  # of 4,000 episodes; that page has other confidences
}


@pytest.fixture
def _programs_dropped() -> Iterator[None]:
    """No two agents share a program, and seven of them together would take more than a gigabyte."""
    yield
    jax.clear_caches()


@pytest.mark.usefixtures("_programs_dropped")
@pytest.mark.parametrize(("agent", "level"), sorted(STATED))
def test_shipped_agents_score_what_is_stated(agent: str, level: int) -> None:
    """The very episodes that were counted: another machine's rounding may turn a few of them, and a change that turns
    more than one answer or three steps in a hundred is found. What 10,000 gave must be likely, too."""
    confidence = 0.6 if agent == "memoryless" else 0.95
    # Few lanes, so that little is played while the longest episodes end.
    request = EvaluationRequest(level=level, agent=agent, episodes=FIRST, confidences=(confidence,), batch=32)
    run = next(evaluate(request))
    accuracy, steps, right, taken = STATED[agent, level]
    correct = int(run.outcomes.correct.sum())
    assert abs(correct - right) <= 2
    assert int(run.outcomes.steps.sum()) == pytest.approx(taken, rel=0.03)
    low, high = wilson(correct, FIRST, z=3.29)  # 99.9 %
    assert low <= accuracy <= high
    assert abs(run.outcomes.steps.mean() - steps) <= 3.29 * run.outcomes.steps.std() / FIRST**0.5
    assert (run.summary["control_accuracy"] is None) == (agent in ("glimpse", "memoryless"))


@pytest.mark.parametrize("agent", ["planner", "canvas", "glimpse", "memoryless"])
@pytest.mark.parametrize(
    ("changes", "named"),
    [({"window": 96}, "window"), ({"stride": 16}, "stride"), ({"outline": False}, "outline")],
)
def test_other_worlds_are_refused_by_field(agent: str, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"trained for {named}"):
        make_agent(agent, dataclasses.replace(Geometry(), **changes))


def test_sources_and_folders_without_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trained on source 'mnist'"):
        next(evaluate(EvaluationRequest(agent="canvas", source="tfds:fashion_mnist", episodes=10)))
    with pytest.raises(ValueError, match="test"):
        next(evaluate(EvaluationRequest(agent="canvas", split="train", episodes=10)))
    with pytest.raises(ValueError, match=r"no weights 'reader' lie in .*\(there are none\)"):
        next(evaluate(EvaluationRequest(agent="canvas", episodes=10, weights=tmp_path / "nowhere")))
    shutil.copy(WEIGHTS / "reader.npz", tmp_path)
    with pytest.raises(ValueError, match=r"no weights 'canvas' lie in .*expected one of reader"):
        make_agent("canvas", weights=tmp_path)
    with pytest.raises(ValueError, match="no trained weights"):
        next(evaluate(EvaluationRequest(agent="observer", episodes=10, weights=tmp_path)))
    assert make_agent("planner", weights=tmp_path).observation == "canvas"


def test_too_large_weights_are_refused(tmp_path: Path) -> None:
    params = {"params": {"big": np.random.default_rng(0).standard_normal((1200, 1200))}}
    with pytest.raises(ValueError, match="at most"):
        shipped.save(tmp_path / "big.npz", params, {})
    assert not (tmp_path / "big.npz").exists()


def test_numbers_that_half_precision_does_not_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "reader.npz"
    for number in (np.nan, np.inf, 1e6):
        with pytest.raises(ValueError, match="params/bias .*not finite"):
            shipped.save(path, {"params": {"bias": np.asarray([0, number], np.float32)}}, {})
    with pytest.raises(ValueError, match="information .*not finite"):
        shipped.save(path, {}, {}, information=np.asarray([np.nan]))
    assert not path.exists()


@functools.cache
def _stored(name: str) -> dict[str, np.ndarray]:
    with np.load(WEIGHTS / f"{name}.npz") as stored:
        return {key: stored[key] for key in stored.files}


def _rewritten(path: Path, name: str, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """An agent's file again, after a change of its arrays and of what is known about them."""
    arrays: dict[str, Any] = dict(_stored(name))
    about = json.loads(str(arrays.pop("about")))
    change(arrays, about)
    np.savez(path, **arrays, about=np.array(json.dumps(about)))


def _refused(name: str, folder: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        shipped.load(name, folder)
    text = str(caught.value)
    assert str(folder / f"{name}.npz") in text
    assert "baselines.export" in text
    assert "\n" not in text


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = (WEIGHTS / "canvas.npz").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    for content in (b"", b"no weights", whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        (tmp_path / "canvas.npz").write_bytes(content)
        _refused("canvas", tmp_path, "no file of weights, or a damaged one")
    np.savez(tmp_path / "canvas.npz", x=np.zeros(3))
    _refused("canvas", tmp_path, "the entry 'about' is missing")
    np.save(tmp_path / "x.npy", np.zeros(3))
    (tmp_path / "x.npy").rename(tmp_path / "canvas.npz")
    _refused("canvas", tmp_path, "no file of weights, or a damaged one")
    np.savez(tmp_path / "canvas.npz", about=np.array("{"))
    _refused("canvas", tmp_path, "the entry 'about' is damaged")
    np.savez(tmp_path / "canvas.npz", about=np.array("[]"))
    _refused("canvas", tmp_path, "the entry 'about' is no JSON object")


@pytest.mark.parametrize(
    ("held", "name"),
    [("reader", "canvas"), ("glimpse", "canvas"), ("memoryless", "glimpse"), ("glimpse", "memoryless")],
)
def test_weights_of_another_agent_are_refused(tmp_path: Path, held: str, name: str) -> None:
    shutil.copy(WEIGHTS / f"{held}.npz", tmp_path / f"{name}.npz")
    _refused(name, tmp_path, f"weights of '{held}', not of '{name}'")
    with pytest.raises(ValueError, match="not of"):
        parameters(name, tmp_path if name != "canvas" else _with_a_reader(tmp_path))


def _with_a_reader(folder: Path) -> Path:
    shutil.copy(WEIGHTS / "reader.npz", folder)
    return folder


_BIAS = "params/Dense_0/bias"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("reader", lambda arrays, about: arrays.update({_BIAS: np.zeros(3)}), rf"{_BIAS} is of shape \(3,\)"),
        ("reader", lambda arrays, about: arrays.pop(_BIAS), f"{_BIAS} is missing"),
        ("reader", lambda arrays, about: arrays.update({f"{_BIAS}/x": np.zeros(3)}), "makes it nothing"),
        ("reader", lambda arrays, about: arrays.pop("information"), "information is missing"),
        (
            "reader",
            lambda arrays, about: arrays.update({_BIAS: np.zeros(256, np.int32)}),
            "something else than",
        ),
        ("reader", lambda arrays, about: arrays.update({_BIAS: np.full(256, np.nan)}), f"{_BIAS} .*finite"),
        (
            "reader",
            lambda arrays, about: arrays.update(information=np.full((28, 28), np.nan)),
            "information .*finite",
        ),
        ("reader", lambda arrays, about: about.update(temperature=0), "temperature is 0"),
        ("reader", lambda arrays, about: about.update(temperature=float("nan")), "temperature is nan"),
        ("reader", lambda arrays, about: about.pop("temperature"), "temperature is None"),
        (
            "reader",
            lambda arrays, about: about["config"].update(channels=["a"]),
            "channels .*list of numbers",
        ),
        ("reader", lambda arrays, about: about["config"].update(strides=[2]), "3 channels, but 1 strides"),
        ("canvas", lambda arrays, about: about["config"].pop("hidden"), "hidden None"),
        ("canvas", lambda arrays, about: about.pop("name"), "weights of None"),
        ("canvas", lambda arrays, about: about.pop("config"), "no configuration"),
        ("canvas", lambda arrays, about: about["world"].update(depth=3), "'depth': 3.*expected the fields"),
        ("canvas", lambda arrays, about: about.update(world={}), "expected the fields window"),
        ("canvas", lambda arrays, about: about["world"].update(window=[64]), "expected whole numbers"),
        ("glimpse", lambda arrays, about: about["config"].update(core_size=128), r"makes it \(128"),
        ("glimpse", lambda arrays, about: about["config"].update(core_size=0), "core_size 0"),
        ("glimpse", lambda arrays, about: about["config"].update(remembers=False), "remembers False"),
    ],
)
def test_files_that_do_not_fit_the_agent_are_refused(
    tmp_path: Path, name: str, change: Callable[[dict[str, Any], dict[str, Any]], None], message: str
) -> None:
    _rewritten(tmp_path / f"{name}.npz", name, change)
    _refused(name, tmp_path, message)


def test_a_reader_carries_its_world(reader: Any) -> None:
    """Whoever passes the reader is refused as one who has it loaded."""
    for agent in ("planner", "canvas"):
        for window in (48, 96):
            with pytest.raises(ValueError, match=f"'{agent}' was trained for window 64"):
                make_agent(agent, Geometry(window=window), reader=reader)
        for digits in (1, 2, 5):
            make_agent(agent, Geometry(width=224 * digits, num_digits=digits), reader=reader)
    unknown = dataclasses.replace(reader, world=())
    with pytest.raises(ValueError, match="the reader knows digits of"):
        make_agent("planner", Geometry(height=448, width=448, native_factor=16), reader=unknown)


@pytest.mark.parametrize("agent", ["planner", "canvas", "glimpse", "memoryless"])
def test_digits_of_another_size_are_refused(agent: str) -> None:
    with pytest.raises(
        ValueError, match=r"digits of \(28, 28\) native pixels, but this world has \(56, 28\)"
    ):
        make_agent(agent, Geometry(height=448))
