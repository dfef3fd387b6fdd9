"""fluid.io: saving and loading into a folder.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from onnxgrad import static
from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable, set_values
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import make_folder, read_arrays, writing
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.io import DataLoader
from onnxgrad.reader import batch, buffered, cache, chain, compose, firstn, map_readers, shuffle, xmap_readers
from onnxgrad.static.io import load, load_program_state, save, set_program_state

__all__ = [
    "DataLoader", "batch", "buffered", "cache", "chain", "compose", "firstn", "load", "load_inference_model", "load_params",
    "load_persistables", "load_program_state", "load_vars", "map_readers", "save", "save_inference_model", "save_params",
    "save_persistables", "save_vars", "set_program_state", "shuffle", "xmap_readers",
]  # fmt: skip


def save_vars(
    executor: Executor | None,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Variable] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Write variables to ``dirname/<filename>.npz``, by default those for which ``predicate`` holds.

    Args:
        executor: accepted for compatibility.
        dirname: the folder.
        main_program: the program; the default one unless given.
        vars: variables; those for which ``predicate`` holds unless given.
        predicate: whether a persistable variable is one of them; all unless given.
        filename: of the file, without .npz; '__all__' unless given.

    Raises:
        NotInitialized: if one has no value yet.
    """
    chosen = _chosen(main_program or default_main_program(), vars, predicate)
    make_folder(Path(dirname))
    with writing(Path(dirname) / f"{filename or '__all__'}.npz") as file, ZipFile(file, "w") as archive:
        for v in chosen:
            with archive.open(f"{v.name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, v.get_value(), allow_pickle=False)


def load_vars(
    executor: Executor | None,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Variable] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Set variables from the file that ``save_vars`` wrote.

    Args:
        executor: accepted for compatibility.
        dirname: the folder.
        main_program: the program; the default one unless given.
        vars: variables; those for which ``predicate`` holds unless given.
        predicate: whether a persistable variable is one of them; all unless given.
        filename: of the file, without .npz; '__all__' unless given.

    Raises:
        MissingFile: (a FileNotFoundError) if there is none; ModelError if it is damaged.
        ArgumentError: if it lacks a variable, or an array does not have its variable's shape; nothing is changed then.
    """
    chosen = _chosen(main_program or default_main_program(), vars, predicate)
    path = Path(dirname) / f"{filename or '__all__'}.npz"
    values = read_arrays(path)
    missing = [v.name for v in chosen if v.name not in values]
    if missing:
        raise ArgumentError(f"{dirname!r} holds no value for {missing[0]!r}.")
    set_values((v, values[v.name]) for v in chosen)


def _chosen(program: Program, vars: Sequence[Variable] | None, predicate: Callable[[Variable], bool] | None) -> list[Variable]:
    if vars is not None:
        return list(vars)
    persistable = {v: None for v in [*program.all_parameters(), *program.list_vars()] if v.persistable}
    return [v for v in persistable if predicate is None or predicate(v)]


def _is_parameter(v: Variable) -> bool:
    return isinstance(v, Parameter)


def save_persistables(
    executor: Executor | None, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Write parameters, accumulators and statistics to a folder.

    Args:
        executor: accepted for compatibility.
        dirname: the folder.
        main_program: the program; the default one unless given.
        filename: of the file, without .npz; '__all__' unless given.
    """
    save_vars(executor, dirname, main_program, filename=filename)


def load_persistables(
    executor: Executor | None, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Set parameters, accumulators and statistics from a folder.

    Args:
        executor: accepted for compatibility.
        dirname: the folder.
        main_program: the program; the default one unless given.
        filename: of the file, without .npz; '__all__' unless given.
    """
    load_vars(executor, dirname, main_program, filename=filename)


def save_params(executor: Executor | None, dirname: str, main_program: Program | None = None, filename: str | None = None) -> None:
    """Write all parameters to a folder.

    Args:
        executor: accepted for compatibility.
        dirname: the folder.
        main_program: the program; the default one unless given.
        filename: of the file, without .npz; '__all__' unless given.
    """
    save_vars(executor, dirname, main_program, None, _is_parameter, filename)


def load_params(executor: Executor | None, dirname: str, main_program: Program | None = None, filename: str | None = None) -> None:
    """Set all parameters from a folder.

    Args:
        executor: accepted for compatibility.
        dirname: the folder.
        main_program: the program; the default one unless given.
        filename: of the file, without .npz; '__all__' unless given.
    """
    load_vars(executor, dirname, main_program, None, _is_parameter, filename)


def save_inference_model(
    dirname: str,
    feeded_var_names: Sequence[str],
    target_vars: Variable | Sequence[Variable],
    executor: Executor | None,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Write ``dirname/<model_filename>.onnx`` (``__model__.onnx``), which computes the targets from the fed variables.

    Args:
        dirname: the folder.
        feeded_var_names: names of the inputs.
        target_vars: the outputs.
        executor: what ran the program.
        main_program: the program; that of the targets unless given.
        model_filename: of the file, without .onnx.
        params_filename, export_for_deployment, program_only: accepted for compatibility.

    Returns:
        The names of the targets.
    """
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars)
    program = main_program or targets[0].block.program
    feeds = [program.global_block().var(name) for name in feeded_var_names]
    static.save_inference_model(str(Path(dirname) / (model_filename or "__model__")), feeds, targets, executor, program)
    return [v.name for v in targets]


def load_inference_model(
    dirname: str, executor: Executor | None, model_filename: str | None = None, params_filename: str | None = None
) -> tuple[Program, list[str], list[Variable]]:
    """(program, names of its inputs, its output variables) of ``save_inference_model``.

    Args:
        dirname: the folder.
        executor: what is to run the program.
        model_filename: of the file, without .onnx.
        params_filename: accepted for compatibility.
    """
    return static.load_inference_model(str(Path(dirname) / (model_filename or "__model__")), executor)


globals().update(absence_hooks(__name__))
