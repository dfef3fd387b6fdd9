"""Scopes: values by name, buffers that are held while somebody reads them, and steps that are finished whole or not at all."""

import copy
import gc
import pickle
import re
import types

import numpy as np
import pytest

from onnxgrad import errors
from onnxgrad.core.ir.program import Program
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError


@pytest.fixture
def scope():
    return Scope()


def array(*numbers):
    return np.array(numbers, np.float32)


def buffer(*numbers):
    return Buffer(value_of(array(*numbers)))


def values(scope):
    return {name: scope.get(name).tolist() for name in scope.local_var_names()}


# Values --------------------------------------------------------------------------------------------------------------


def test_a_value_that_was_set_is_read_again(scope):
    scope.set("w", [[1, 2]])
    np.testing.assert_array_equal(scope.get("w"), [[1, 2]])
    assert scope.get("b") is None


def test_what_is_set_does_not_change_with_the_callers_array(scope):
    mine = array(1, 2)
    scope.set("w", mine)
    mine[:] = 9
    assert values(scope) == {"w": [1, 2]}


def test_a_value_takes_the_element_type_of_its_variable(scope):
    v = Program().global_block().create_parameter("w", [2], "float16")
    scope.set("w", [1.5, 2.5], like=v)
    assert scope.get("w").dtype == np.float16 and values(scope) == {"w": [1.5, 2.5]}


@pytest.mark.parametrize("shape", [(2, 1), (3,), ()])
def test_a_value_of_another_shape_is_refused_and_the_old_one_stays(scope, shape):
    v = Program().global_block().create_parameter("w", [2])
    scope.set("w", array(1, 2), like=v)
    with pytest.raises(errors.ArgumentError, match=re.escape(f"w has shape [2], the new value has {list(shape)}")):
        scope.set("w", np.zeros(shape), like=v)
    assert values(scope) == {"w": [1, 2]}


def test_a_dimension_that_is_open_accepts_any_size(scope):
    v = Program().global_block().create_var("w", [None, 2], persistable=True)
    scope.set("w", np.zeros((3, 2)), like=v)
    assert scope.get("w").shape == (3, 2)


def test_handles_find_what_is_there_and_write_what_is_not(scope):
    assert scope.find_var("w") is None
    scope.var("w").get_tensor().set(array(1, 2), None)
    found = scope.find_var("w").get_tensor()
    assert np.array(found).tolist() == [1, 2] and found.shape() == [2]
    assert np.asarray(found, np.int64).dtype == np.int64


def test_names_stand_in_the_order_of_their_first_value(scope):
    for name in ("b", "a", "b"):
        scope.set(name, array(1))
    assert scope.local_var_names() == list(scope.values) == ["b", "a"] and len(scope.values) == 2


def test_a_value_that_is_not_there_is_a_key_error(scope):
    with pytest.raises(KeyError, match="w"):
        scope.values["w"]
    with pytest.raises(KeyError, match="w"):
        del scope.values["w"]


def test_values_on_a_device_are_read_as_arrays(scope):
    scope.put("w", buffer(1, 2))
    found = scope.get("w")
    found[:] = 9
    assert values(scope) == {"w": [1, 2]}


# Buffers -------------------------------------------------------------------------------------------------------------


def test_a_present_value_is_held_until_another_one_takes_its_place(scope):
    first, second = buffer(1), buffer(2)
    scope.put("w", first)
    assert not first.is_held_by(0) and first.is_held_by(1)
    scope.put("w", second)
    assert first.is_held_by(0) and not second.is_held_by(0)
    scope.put("w", array(3))
    assert second.is_held_by(0)


@pytest.mark.parametrize("forget", [lambda scope: scope.clear(), lambda scope: scope.values.pop("w")], ids=["clear", "pop"])
def test_a_value_that_is_forgotten_is_released(scope, forget):
    held = buffer(1)
    scope.put("w", held)
    forget(scope)
    gc.collect()  # the handle that pop returned
    assert held.is_held_by(0) and scope.get("w") is None and scope.find_var("w") is None


def test_a_scope_that_goes_away_releases_its_values():
    held, scope = buffer(1), Scope()
    scope.put("w", held)
    del scope
    gc.collect()
    assert held.is_held_by(0)


def test_a_handle_holds_its_buffer_for_as_long_as_it_lives(scope):
    held = buffer(1)
    scope.put("w", held)
    handle = scope.values["w"]
    assert not held.is_held_by(1) and held.is_held_by(2)
    del handle
    gc.collect()
    assert held.is_held_by(1)


def test_a_handle_that_is_put_back_is_the_same_buffer(scope):
    held = buffer(1)
    scope.put("w", held)
    scope.values["again"] = scope.values["w"]
    assert scope.stored("again") is held


def test_memory_of_a_caller_is_never_written_over(scope):
    mine = value_of(array(1))
    scope.values["w"] = mine
    scope.swap([("w", buffer(2))])
    assert scope.spare("w") is None and mine.numpy().tolist() == [1]


def test_a_view_holds_its_buffer_for_the_length_of_the_block(scope):
    held = buffer(1, 2)
    scope.put("w", held)
    with pytest.raises(ZeroDivisionError), scope.viewed("w") as view:
        assert not held.is_held_by(1) and view.tolist() == [1, 2]
        scope.put("w", array(3, 4))
        assert not held.is_held_by(0)
        raise ZeroDivisionError
    assert held.is_held_by(0)


def test_what_a_run_replaces_may_be_written_over_by_the_next(scope):
    old, new = buffer(1), buffer(2)
    scope.put("w", old)
    assert scope.spare("w") is None
    scope.swap([("w", new)])
    assert scope.spare("w") is old and values(scope) == {"w": [2]}
    scope.swap([("w", old)])
    assert scope.spare("w") is new
    scope.drop_spare("w")
    assert scope.spare("w") is None


def test_what_somebody_holds_is_not_written_over(scope):
    old = buffer(1)
    scope.put("w", old)
    reader = old.hold()
    scope.swap([("w", buffer(2))])
    assert scope.spare("w") is None
    reader.release()
    assert scope.spare("w") is old


def test_memory_that_two_names_began_with_becomes_spare_for_one(scope):
    shared = buffer(1)
    scope.put("a", shared)
    scope.put("b", shared)
    scope.swap([("a", buffer(2)), ("b", buffer(3))])
    assert [scope.spare(name) is shared for name in "ab"] == [False, True]


# Copies --------------------------------------------------------------------------------------------------------------


def test_a_copy_keeps_its_values_and_copies_no_memory(scope):
    held = buffer(1)
    scope.put("w", held)
    scope.set("b", array(2))
    copy = scope.copy()
    assert copy.stored("w") is held and held.is_held_by(2)
    scope.swap([("w", buffer(5))])
    scope.set("b", array(6))
    scope.set("new", array(7))
    assert values(copy) == {"w": [1], "b": [2]} and scope.spare("w") is None
    copy.clear()
    assert scope.spare("w") is held


# What is left of a step ----------------------------------------------------------------------------------------------


class Step:
    """New values of two names, put in place one after another; fails where it is told to, once for each time."""

    def __init__(self, scope, *failures):
        self.scope = scope
        self.failures = list(failures)
        self.left = ["a", "b"]

    @property
    def has_begun(self):
        return len(self.left) < 2

    def finish(self):
        while self.left:
            if self.failures and self.failures[0][0] == self.left[0]:
                raise self.failures.pop(0)[1]
            name = self.left.pop(0)
            self.scope.put(name, array(2))


@pytest.fixture
def stepped(scope):
    """A scope with the old values of both names."""
    scope.set("a", array(1))
    scope.set("b", array(1))
    return scope


OLD, NEW = {"a": [1], "b": [1]}, {"a": [2], "b": [2]}


def test_a_step_is_finished_at_once(stepped):
    stepped.defer(Step(stepped))
    assert {name: stepped.stored(name).tolist() for name in "ab"} == NEW


@pytest.mark.parametrize("failure", [ValueError("full"), KeyboardInterrupt()])
def test_a_step_that_fails_before_it_began_is_forgotten(stepped, failure):
    with pytest.raises(type(failure)):
        stepped.defer(Step(stepped, ("a", failure)))
    assert values(stepped) == OLD


@pytest.mark.parametrize("failure", [ValueError("full"), KeyboardInterrupt()])
def test_a_step_that_fails_halfway_is_finished_before_a_value_is_read(stepped, failure):
    with pytest.raises(type(failure)):
        stepped.defer(Step(stepped, ("b", failure)))
    assert stepped.stored("b").tolist() == [1]
    assert values(stepped) == NEW


@pytest.mark.parametrize(
    "read",
    [
        lambda scope: scope.get("b"),
        lambda scope: scope.values["b"],
        lambda scope: scope.copy().get("b"),
        lambda scope: np.array(scope.find_var("b").get_tensor()),
        lambda scope: scope.viewed("b").__enter__(),
    ],
    ids=["get", "values", "copy", "tensor", "viewed"],
)
def test_no_reader_finds_half_a_step(stepped, read):
    with pytest.raises(ValueError, match="full"):
        stepped.defer(Step(stepped, ("b", ValueError("full"))))
    assert read(stepped).tolist() == [2]
    assert stepped.stored("a").tolist() == [2]


def test_a_step_that_fails_again_is_left_again(stepped):
    with pytest.raises(ValueError, match="one"):
        stepped.defer(Step(stepped, ("b", ValueError("one")), ("b", ValueError("two"))))
    with pytest.raises(ValueError, match="two"):
        stepped.get("a")
    assert values(stepped) == NEW


def test_clearing_forgets_what_was_left_of_a_step(stepped):
    def change():
        stepped.defer(Step(stepped))
        stepped.clear()

    stepped.change(change)
    assert values(stepped) == {}


# Putting back --------------------------------------------------------------------------------------------------------


def stored(scope):
    return {name: scope.stored(name).tolist() for name in "ab"}


def test_a_step_waits_for_the_end_of_a_change(stepped):
    def change():
        stepped.defer(Step(stepped))
        assert stored(stepped) == OLD

    stepped.change(change)
    assert stored(stepped) == NEW


def test_a_step_waits_for_the_end_of_the_outer_change(stepped):
    def change():
        stepped.change(lambda: stepped.defer(Step(stepped)))
        assert stored(stepped) == OLD

    stepped.change(change)
    assert stored(stepped) == NEW


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_a_change_that_fails_has_changed_nothing(stepped, failure):
    held = buffer(5)
    stepped.put("a", held)
    counter = types.SimpleNamespace(count=1)

    def change():
        stepped.swap([("a", buffer(6))])
        stepped.put("c", buffer(7))
        stepped.follow(counter, count=2)
        del stepped.values["b"]
        stepped.defer(Step(stepped))
        raise failure

    with pytest.raises(failure):
        stepped.change(change)
    assert values(stepped) == {"a": [5], "b": [1]} and stepped.stored("a") is held
    assert held.is_held_by(1) and not held.is_held_by(0) and counter.count == 1


def test_an_inner_change_that_fails_leaves_the_outer_one(stepped):
    def fails():
        stepped.put("a", array(6))
        raise ZeroDivisionError

    def change():
        stepped.put("b", array(5))
        with pytest.raises(ZeroDivisionError):
            stepped.change(fails)

    stepped.change(change)
    assert values(stepped) == {"a": [1], "b": [5]}


def test_what_a_change_replaces_is_held_by_nobody(stepped):
    old, new = buffer(5), buffer(6)
    stepped.put("a", old)
    stepped.change(lambda: stepped.swap([("a", new)]))
    assert old.is_held_by(0) and new.is_held_by(1) and stepped.spare("a") is old


def test_counters_follow_the_values(stepped):
    counter = types.SimpleNamespace(count=1)

    def change():
        stepped.put("a", array(2))
        stepped.follow(counter, count=2)
        assert counter.count == 1

    stepped.change(change)
    assert counter.count == 2
    stepped.follow(counter, count=3)
    assert counter.count == 3


@pytest.mark.parametrize("failure", [ValueError("full"), KeyboardInterrupt()])
def test_counters_stay_where_a_step_cannot_begin(stepped, failure):
    counter = types.SimpleNamespace(count=1)
    held = buffer(5)
    stepped.put("c", held)

    def change():
        stepped.defer(Step(stepped, ("a", failure)))
        stepped.swap([("c", buffer(6))])
        stepped.follow(counter, count=2)

    with pytest.raises(type(failure)):
        stepped.change(change)
    assert values(stepped) == {**OLD, "c": [5]} and counter.count == 1
    assert held.is_held_by(1) and not held.is_held_by(0)


def test_counters_follow_a_step_that_is_finished_later(stepped):
    counter = types.SimpleNamespace(count=1)

    def change():
        stepped.defer(Step(stepped, ("b", ValueError("full"))))
        stepped.follow(counter, count=2)

    with pytest.raises(ValueError, match="full"):
        stepped.change(change)
    assert counter.count == 1
    assert values(stepped) == NEW and counter.count == 2


def test_an_interrupt_waits_until_a_step_is_in_place(stepped):
    with pytest.raises(KeyboardInterrupt):
        stepped.change(lambda: stepped.defer(Step(stepped, ("b", KeyboardInterrupt()))))
    assert stored(stepped) == NEW


def test_several_values_are_set_at_once_or_not_at_all(stepped):
    like = types.SimpleNamespace(static_shape=(1,), dtype=dtype_of("float32"))
    with pytest.raises(ArgumentError, match="b has shape"):
        stepped.set_all([("a", [2.0], like), ("b", [2.0, 3.0], like)])
    assert values(stepped) == OLD
    stepped.set_all([("a", [2.0], like), ("b", [3.0], like)])
    assert values(stepped) == {"a": [2], "b": [3]}


def test_a_scope_takes_the_values_of_another(stepped):
    other, held = Scope(), buffer(5)
    other.put("b", held)
    stepped.take(other)
    assert values(stepped) == {"b": [5]} and held.is_held_by(2) and not held.is_held_by(1)


def test_a_scope_is_copied_but_not_pickled(stepped):
    held = buffer(5)
    stepped.put("c", held)
    other = copy.deepcopy(stepped)
    stepped.put("a", array(2))
    assert values(other) == {**OLD, "c": [5]} and copy.copy(other).stored("c") is held
    with pytest.raises(ArgumentTypeError, match="state_dict"):
        pickle.dumps(stepped)
