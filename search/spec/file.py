"""Finds, reads and checks study files; every mistake becomes one line with its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from search.errors import UsageError
from search.masking import MASK, Masker, is_harmless, is_secret_name
from search.spec.errors import Mistake, Place, found, mistakes
from search.spec.study import StudySpec

MAX_BYTES = 1_000_000
MOST_MISTAKES = 30
"""Reported at once."""


def packaged_spaces() -> Path:
    """The folder of the studies that ship with the package, or of the checkout we run from."""
    inside = Path(str(resources.files("search"))) / "spaces"
    return inside if inside.is_dir() else inside.parent.parent / "spaces"


def known_studies(places: tuple[Path, ...]) -> list[str]:
    """Names of all study files in `places`."""
    return sorted({path.stem for place in places if place.is_dir() for path in place.glob("*.yaml")})


def find_study(name: str, *, here: Path) -> Path:
    """The study file for a name or a path: `here/spaces` is looked at before the packaged ones.

    Raises:
        UsageError: There is no such file; the known names are listed.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = here / name
        if not path.is_file():
            raise UsageError(
                f"`--study` takes a name or the path of a file, but there is no file {name}. Correct the path."
            )
        return path
    places = (here / "spaces", packaged_spaces())
    for place in places:
        if (path := place / f"{name}.yaml").is_file():
            return path
    known = known_studies(places)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(f"There is no study named {name!r}.{hint} Known studies: {', '.join(known) or 'none'}.")


def load_study(path: Path) -> StudySpec:
    """Read one study file.

    Raises:
        UsageError: One line for each mistake: file, line, key path, what was expected, what was found.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(
                f"{path}: a study file is at most {MAX_BYTES} bytes long. Name prompts by their file, under `measure.prompts.file`."
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read: {error}. Check the path, its rights and that it is UTF-8."
        ) from error
    return parse_study(text, name=str(path))


def parse_study(text: str, *, name: str) -> StudySpec:
    """Check the text of a study file; `name` is what mistakes are reported under.

    Raises:
        UsageError: As in `load_study`.
    """
    try:
        root, data = _parsed(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{name}{line}: not YAML: {getattr(error, 'problem', None) or error}.") from error
    except RecursionError as error:
        raise UsageError(f"{name}: nested too deeply. Write it without anchors that hold themselves.") from error
    if not isinstance(data, dict):
        raise UsageError(f"{name}:1: a study file is a mapping of keys to values, but found {found(data)}.")
    wrong = [*_repeated_keys(root, ()), *_unknown_keys(data, StudySpec, ())]
    try:
        spec = StudySpec.model_validate(data)
    except ValidationError as error:
        wrong += mistakes([_public(item) for item in error.errors(include_url=False)], data)
        spec = None
    if wrong or spec is None:
        masker = _masker_of(data)
        wrong = [(place, masker.own_text(what)) for place, what in wrong]
        unique = dict.fromkeys((_line(root, place), ".".join(map(str, place)), what) for place, what in wrong)
        lines = [f"{name}:{line}: {f'`{key}`: ' if key else ''}{what}" for line, key, what in sorted(unique)]
        if len(lines) > MOST_MISTAKES:
            lines[MOST_MISTAKES:] = [f"{name}: and {len(lines) - MOST_MISTAKES} more mistakes; correct these first"]
        raise UsageError("\n".join(lines))
    return spec


def _parsed(text: str) -> tuple[yaml.Node | None, Any]:
    """The nodes of a document, which know their lines, and what they say; parsing is most of the time of both."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        data = None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()
    if "<<" in text:  # merge keys were resolved in the nodes themselves
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    return root, data


def _public(item: Mapping[str, Any]) -> dict[str, Any]:
    """A mistake without the value that was found, where that may be a secret: a sentence may cut it short."""
    place, value = item["loc"], item["input"]
    place = place[1:] if place[:1] == ("escalation",) else place
    if place[:1] != ("engine",) or len(place) < 3:
        return dict(item)
    harmless = is_harmless(str(place[2]), str(value)) if place[1] == "env" else not is_secret_name(str(place[2]))
    plain = value is None or isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 10**6)
    return dict(item) if harmless or plain else {**item, "input": MASK}


def _masker_of(data: Mapping[Any, Any]) -> Masker:
    """Knows the secrets of a file that may be wrong anywhere."""
    second = data.get("escalation")
    engines = (data.get("engine"), second.get("engine") if isinstance(second, dict) else None)
    return Masker(secret for engine in engines for secret in _secrets_of(engine))


def _secrets_of(engine: object) -> tuple[str, ...]:
    engine = engine if isinstance(engine, dict) else {}
    env, prefix, args = (engine.get(key) for key in ("env", "prefix", "server_args"))
    variables = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    words = [str(word) for word in prefix] if isinstance(prefix, list) else []
    flags = [f"--{name}={value}" for name, value in args.items()] if isinstance(args, dict) else []
    return tuple(Masker.of(env=variables, words=[*words, *flags]).secrets)


def _unknown_keys(data: Any, model: type[BaseModel], place: Place) -> Iterator[Mistake]:
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        field = model.model_fields.get(key)
        if field is None:
            near = difflib.get_close_matches(str(key), model.model_fields, n=1, cutoff=0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(model.model_fields)}."
            yield (*place, key), f"is not a key of a study file; {hint}"
            continue
        for shape in _shapes(field.annotation):
            if _is_part(shape):
                yield from _unknown_keys(value, shape, (*place, key))
            else:
                yield from _unknown_keys_in_items(value, shape, (*place, key))


def _unknown_keys_in_items(value: Any, annotation: Any, place: Place) -> Iterator[Mistake]:
    models = list(dict.fromkeys(shape for arg in get_args(annotation) for shape in _shapes(arg) if _is_part(shape)))
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in items:
        if models and isinstance(item, dict):
            # Of several forms the one that knows most of the keys: a mistake is reported once.
            meant = min(models, key=lambda model: len(item.keys() - model.model_fields.keys()))
            yield from _unknown_keys(item, meant, (*place, key))


def _shapes(annotation: Any) -> Iterator[Any]:
    """What a value may look like: the alternatives of a union, without what `Annotated` adds to them."""
    if get_origin(annotation) is Annotated:
        yield from _shapes(get_args(annotation)[0])
    elif isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        for alternative in get_args(annotation):
            yield from _shapes(alternative)
    else:
        yield annotation


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _repeated_keys(node: yaml.Node | None, place: Place) -> Iterator[Mistake]:
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                yield (*place, key.value), "is given twice."
            seen.add(key.value)
            yield from _repeated_keys(value, (*place, key.value))


def _line(node: yaml.Node | None, place: Place) -> int:
    """Line of the deepest part of `place` that stands in the file, counted from 1."""
    line = node.start_mark.line if node else 0
    for step in place:
        if isinstance(node, yaml.MappingNode):
            matching = [(key, value) for key, value in node.value if key.value == str(step)]
            if not matching:
                break
            line, node = matching[-1][0].start_mark.line, matching[-1][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
        else:
            break
    return line + 1
