"""The layout of the package: what may import what, and which file alone may do certain things."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

from mt_cli.cli.app import COMMANDS, command_of

PACKAGE = Path(__file__).parents[1] / "mt_cli"

# A file imports only from those above it, and from its own folder.
ORDER = [
    "errors", "display", "files", "processes", "device", "config", "recipe", "config_file", "data", "checking", "model",
    "run", "mixture", "corpus_files", "corpus_config", "decoding", "evaluation", "training", "augment", "explain", "documents", "stages", "build", "export",
    "serve", "cli",
]  # fmt: skip


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


MODULES = {
    name_of(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(PACKAGE.rglob("*.py"))
}
FILES = {name: tree for name, tree in MODULES.items() if name.rpartition("/")[2] not in {"__init__", "__main__"}}


def rank(name: str) -> int:
    return ORDER.index(name.partition("/")[0])


def imports(name: str) -> set[str]:
    """Full names of what is imported, wherever in the file."""
    found = set()
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = ["mt_cli", *name.split("/")][: -node.level] if node.level else []
            found |= {".".join([*parents, *filter(None, [node.module]), alias.name]) for alias in node.names}
    return found


def imported_files(of: str) -> set[str]:
    """The package's own files that are imported."""
    found = set()
    for name in imports(of):
        if name.partition(".")[0] != "mt_cli":
            continue
        path = name.removeprefix("mt_cli").lstrip(".").replace(".", "/")
        while path and path not in FILES:
            path = path.rpartition("/")[0]
        assert path, f"{name} is imported from a folder and not from the file that has it"
        found.add(path)
    return found


def dotted(node: ast.AST) -> str:
    """`torch.load` for the expression of that name, '' for anything that is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST) -> set[str]:
    return {dotted(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def who_calls(*endings: str) -> set[str]:
    return {
        name for name, tree in FILES.items() for call in calls(tree) if any(f".{call}".endswith(e) for e in endings)
    }


def test_a_file_imports_only_from_those_above_it():
    for name in FILES:
        others = imported_files(name)
        below = {one for one in others if rank(one) > rank(name) or (rank(one) == rank(name) and "/" not in name)}
        assert not below, f"{name}.py imports from {below}, which the design puts below it"
        of_the_network = all(one == "config" or one.startswith("model/") for one in others)
        assert of_the_network or not name.startswith("model/"), f"{name}.py knows of text, files or runs"
    graphlib.TopologicalSorter({name: imported_files(name) for name in FILES}).prepare()
    for name in (
        "errors", "files", "config", "config_file", "data/corpus", "data/tokenizer", "data/dataset",
        "run/logs", "run/manifest", "run/run_dir",
    ):  # fmt: skip
        assert not any(module.partition(".")[0] == "torch" for module in imports(name)), name


def test_only_the_command_line_prints_exits_and_catches_every_error_of_a_user():
    exits = ("sys.exit", ".exit", ".quit", "sys.stdout.write", "sys.stdout.buffer.write", ".print")
    assert all(name.startswith("cli/") for name in who_calls(*exits))
    assert who_calls("sys.exit", ".exit", ".quit") == {"cli/app"}
    assert who_calls("os._exit") == {"processes"}  # where an exception may be swallowed
    for name, tree in FILES.items():
        raised = {dotted(node.exc.func if isinstance(node.exc, ast.Call) else node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc}  # fmt: skip
        assert not raised & {"SystemExit", "typer.Exit"} or name == "cli/app"
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                types = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                assert name in {"cli/app", "cli/train"} or "MTError" not in map(dotted, types), name


def test_one_file_or_folder_alone_does_certain_things():
    assert who_calls("torch.save", "torch.load") == {"run/checkpoint"}
    assert who_calls(".scaled_dot_product_attention") == {"model/attention"}
    for library, file in (("yaml", "config_file"), ("sentencepiece", "data/tokenizer")):
        assert {name for name in FILES if any(m.partition(".")[0] == library for m in imports(name))} == {file}
    scales = {name for name, tree in FILES.items() for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "projection_scale"}  # fmt: skip
    assert scales == {"model/transformer"}
    backward = (".backward", "autograd.grad")
    assert all(name.startswith("training/") for name in who_calls(*backward, "model.train", "network.train"))
    assert who_calls(*backward)


def test_no_text_and_no_file_is_ever_run():
    forbidden = {"eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "os.system", "os.popen"}
    forbidden |= {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "marshal.loads", "shelve.open", "torch.jit.load"}
    for name, tree in MODULES.items():
        assert not calls(tree) & forbidden, name
        assert not {m.partition(".")[0] for m in imports(name)} & {"pickle", "dill", "marshal", "shelve"}, name
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in {"weights_only", "shell", "allow_pickle"}:
                wanted = node.arg == "weights_only"
                assert isinstance(node.value, ast.Constant) and node.value.value is wanted, name
    loads = [n for n in ast.walk(FILES["run/checkpoint"]) if isinstance(n, ast.Call) and dotted(n.func) == "torch.load"]
    assert loads and all("weights_only" in {keyword.arg for keyword in load.keywords} for load in loads)


def test_files_say_what_they_are_for_and_are_not_long():
    assert [name for name, tree in FILES.items() if not ast.get_docstring(tree)] == []
    assert not {name.rpartition("/")[2] for name in MODULES} & {"utils", "util", "helpers", "common", "misc"}
    for command in map(command_of, COMMANDS):
        assert command.__module__ == f"mt_cli.cli.{command.__name__}" and f"cli/{command.__name__}" in FILES
    for name, tree in FILES.items():
        for node in ast.walk(tree):
            told = isinstance(node, ast.Assert) and node.msg is not None
            assert not told, f"{name}.py tells somebody something with an assert"
            if isinstance(node, ast.ClassDef):
                assert (node.end_lineno or 0) - node.lineno + 1 <= 150, f"{name}.py: {node.name}"
            if name.startswith("cli/") and isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                assert (node.end_lineno or 0) - first + 1 <= 60, f"{name}.py: {node.name}"


def test_help_answers_without_torch():
    code = "import sys; from mt_cli.cli.app import COMMANDS, command_of; list(map(command_of, COMMANDS));"
    code += "print(*(m for m in ('torch', 'sacrebleu', 'numpy') if m in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "\n", "")
    answer = subprocess.run([sys.executable, "-m", "mt_cli", "--help"], capture_output=True, text=True)
    assert answer.returncode == 0 and all(word in answer.stdout for word in ("train", "translate", "evaluate"))
