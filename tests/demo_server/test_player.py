"""From pictures alone the player does what the agent "planner" does who is given the canvas, under every memory."""

from __future__ import annotations

import functools
import json
from typing import Any

import jax
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.demo_server.conversation import read_request
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.env.types import FusedCanvas, Observation
from mnistpro_jax.worlds.published import published_indices
from tests.demo_server.talk import episode, play, user
from tests.episodes import mnist_test
from tests.reference import ANSWER, RUNNING, ReferenceEpisode

EPISODES = 10


@functools.cache
def rows(level: int) -> Any:
    return published_indices(mnist_test().labels, level, EPISODES)


def asking(player: Player) -> Any:
    return lambda messages: player.decide(read_request({"messages": messages})).text


@functools.cache
def planner_paths(level: int) -> list[ReferenceEpisode]:
    """The agent "planner" in the slow world: it is given the fused canvas and the position."""
    policy = make_agent("planner", Geometry(width=224 * level, num_digits=level))
    act = jax.jit(lambda observation: policy.act(jax.random.key(0), observation, ())[0])
    worlds = []
    for row in rows(level)[: EPISODES if level == 1 else 3]:
        world = episode(row)
        while world.ending == RUNNING:
            fused = FusedCanvas(*world.fused_native(readable=True))
            numbers = (np.asarray(n, np.int32) for n in (world.xy, world.steps, world.steps_left, -1))
            action = act(Observation(fused, *numbers))
            kind = int(action.kind)
            world.step(kind, np.asarray(action.digits).tolist() if kind == ANSWER else None)
        worlds.append(world)
    return worlds


@pytest.mark.parametrize("level", [1, 2])
def test_plays_as_the_planner_does(player: Player, level: int) -> None:
    for row, expected in zip(rows(level), planner_paths(level), strict=False):
        world = episode(row)
        play(world, asking(player))
        assert world.windows == expected.windows
        assert world.answer == expected.answer


@pytest.mark.parametrize(
    "options", [{"memory": "thoughts", "horizon": 1}, {"factor": 3, "memory": "map", "horizon": 1}]
)
def test_its_own_notes_replace_pictures(player: Player, options: dict[str, Any]) -> None:
    for row, expected in zip(rows(1)[:4], planner_paths(1), strict=False):
        world = episode(row)
        play(world, asking(player), **options)
        assert world.windows == expected.windows
        assert world.answer == expected.answer


def test_maps_count_moves_from_the_start(player: Player) -> None:
    world = episode(rows(1)[0])
    replies = [json.loads(reply) for reply in play(world, asking(player), memory="map", horizon=1)]
    assert [list(reply) for reply in replies[:-1]] == [["thought", "spatial_map", "action", "direction"]] * (
        len(replies) - 1
    )
    first, second = replies[0]["spatial_map"]["coords"], replies[1]["spatial_map"]["coords"]
    assert first == [0, 0]
    step = {"up": [0, -1], "down": [0, 1], "left": [-1, 0], "right": [1, 0]}[replies[0]["direction"]]
    assert second == step


@pytest.mark.parametrize(
    ("options", "least"),
    [({"memory": "canvas"}, 9), ({"outline": False}, 9), ({"horizon": 4}, 8)],
)
def test_reads_nearly_all_under_other_memories(player: Player, options: dict[str, Any], least: int) -> None:
    right = 0
    for row in rows(1):
        world = episode(row)
        play(world, asking(player), **options)
        right += world.correct
    assert right >= least


def test_with_one_picture_it_still_answers_in_time(player: Player) -> None:
    for row in rows(1)[:3]:
        world = episode(row)
        play(world, asking(player), horizon=1)
        assert world.answer is not None


def test_last_turn_and_whole_canvas_are_answered_at_once(player: Player) -> None:
    world = episode(rows(1)[0])
    for text, action in (
        ("Move or answer.", "move"),
        ("Move or answer. This is your last turn: answer now.", "answer"),
        ("Which digit is it?", "answer"),
    ):
        assert json.loads(asking(player)([user(text, world.picture())]))["action"] == action
    for row in rows(1)[:3]:
        canvas = episode(row).canvas
        reply = json.loads(asking(player)([user("Which digit?", np.repeat(canvas[:, :, None], 3, axis=2))]))
        assert reply == {"action": "answer", "value": str(mnist_test().labels[row[0]])}
