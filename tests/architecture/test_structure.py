"""The rules that keep the code readable: layers, sizes, names, no effects at import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sample_factory"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the top down; a module imports from its own layer or from lower ones.
LAYERS = [
    ("entry", ("cli", "run_algorithm", "tb", "bench", "evaluate")),
    ("work", ("algorithms", "evaluation", "runner", "launcher", "benchmark", "tune", "experiments")),
    ("reports and families", ("monitoring", "envs.*")),
    ("networks and environments", ("model", "envs")),
    ("mathematics", ("rl",)),
    ("ground", ("config", "processes")),
]
# Config asks the registry for the flags of a family, late and through one function.
ALLOWED_UPWARDS = {
    ("sample_factory.config.families", "sample_factory.envs"),
    # `sample_factory.load_policy`, imported when somebody asks for it.
    ("sample_factory", "sample_factory.evaluation.policy"),
    # Tools that are run by hand live beside the family they belong to.
    ("sample_factory.envs.dmlab.dmlab_populate_cache", "sample_factory.monitoring.log"),
}
ENTRY_MODULES = {
    "sample_factory.algorithms.appo.train_appo",
    "sample_factory.algorithms.appo.enjoy_appo",
    "sample_factory.algorithms.appo.scripts.multi_agent_match",
    "sample_factory.bench.trainee",  # run_algorithm with environments that count
}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(name: str) -> int:
    if name in ENTRY_MODULES:
        return 0
    parts = name.split(".")[1:]
    if parts and parts[0] == "envs" and len(parts) > 1 and (PACKAGE / "envs" / parts[1]).is_dir():
        return 2
    for number, (_, packages) in enumerate(LAYERS):
        if parts and parts[0] in packages:
            return number
    return len(LAYERS) - 1  # the package itself


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("sample_factory.")}


def test_imports_point_downwards():
    names = {module_name(path): imports_of(path) for path in MODULES}
    upwards = [
        f"{name} imports {imported}"
        for name, imports in names.items()
        for imported in sorted(imports)
        if layer_of(imported) < layer_of(name) and not imported_by_exception(name, imported)
    ]
    assert not upwards


def imported_by_exception(name: str, imported: str) -> bool:
    return any(name == who and imported.startswith(what) for who, what in ALLOWED_UPWARDS)


def test_no_module_is_named_after_nothing():
    names = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert not names & {"utils", "util", "misc", "common", "helpers"}


def test_functions_fit_on_a_screen():
    long = [
        f"{module_name(path)}.{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 65
    ]
    assert not long


def test_files_fit_in_the_head():
    lengths = {module_name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length > 450}


def test_every_module_says_what_it_is():
    assert not [module_name(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]


LIGHT_ENTRY_POINTS = ["sample_factory.cli", "sample_factory.run_algorithm", "sample_factory.tb"]


@pytest.mark.parametrize("module", [*LIGHT_ENTRY_POINTS, "sample_factory.algorithms.appo.session"])
def test_the_main_process_starts_without_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_importing_everything_prints_nothing_and_starts_nothing():
    names = [
        module_name(path)
        for path in MODULES
        if path.stem != "__main__" and not module_name(path).startswith("sample_factory.envs.")
    ]
    code = (
        "import importlib, threading\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "import logging; assert not logging.getLogger('sample_factory').handlers\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
