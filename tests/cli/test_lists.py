"""``mnistpro agents`` and ``mnistpro envs`` list what there is, as it is."""

from __future__ import annotations

import json

import jax
import pytest

from mnistpro_jax import registration
from mnistpro_jax.agents import agent_names
from mnistpro_jax.cli import main


def test_agents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["agents"]
    assert [agent["name"] for agent in listed] == list(agent_names())
    reads = {agent["name"]: agent["reads_with"] for agent in listed}
    assert (reads["random"], reads["observer"], reads["canvas"]) == (None, "bank", "network")
    assert main(["agents"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in agent_names())


def test_envs_are_what_the_environments_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["environments"]
    assert [facts["id"] for facts in listed] == list(registration.registered())
    bank = registration.published_bank(1)
    for mode, facts in listed[0]["observations"].items():
        env = registration.environment(bank, observation=mode)
        params = registration.make_params(env, bank)
        shown, _ = jax.eval_shape(env.reset, jax.random.key(0), params)
        leaves = jax.tree.leaves(shown.view)
        assert facts["bytes"] == sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        described = [(tuple(array["shape"]), array["dtype"]) for array in facts["arrays"].values()]
        assert described == [(leaf.shape, str(leaf.dtype)) for leaf in leaves]
        assert (listed[0]["budget"], listed[0]["actions"]) == (
            int(params.budget),
            env.action_space().num_values,
        )
        assert listed[0]["canvas"] == [env.height, env.width]
    assert main(["envs"]) == 0
    assert "MnistPro-L2-v0" in capsys.readouterr().out
