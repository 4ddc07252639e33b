"""The reply grammar, both ways: what the prompt tells the model of it, and the reader that turns a reply into a patch.

Edits are anchored on text, never on line numbers, since models count badly. A reply that cannot be applied becomes a
`Refusal` whose reason says which block, how the nearest lines stand, and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heal_core import anchoring
from heal_core.anchoring import Edit, Line, Unusable
from heal_core.patch import Patch, Refusal
from heal_core.source import Source, split_lines

GRAMMAR = """\
Write one or two sentences that say what is wrong. Then, for every place to change, a block of exactly this form:

path/to/file.py
<<<<<<< SEARCH
the lines to change, exactly as they stand, without the line numbers of the listing
=======
the new lines
>>>>>>> REPLACE

The SEARCH lines must stand exactly once in the file: add a line above or below until they do, or write
`path/to/file.py @ line 12` as the path to choose the place nearest to that line. Write only the lines that change and
what is needed to find them; never write "..." or "rest unchanged" for lines left out. An empty REPLACE deletes lines.
If no change of these files can be right, write `CANNOT FIX: ` and the reason instead of blocks.
"""

MAX_REPLY = 1_000_000  # characters
MAX_BLOCKS = 50
_MAX_LABEL = 500  # characters of a line that may name a path

_OPEN = re.compile(r"([ \t]*)<{5,9} ?SEARCH[ \t]*")
_CLOSE = re.compile(r"[ \t]*>{5,9} ?REPLACE[ \t]*")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_CANNOT = re.compile(r"[ \t>*_#]*CANNOT FIX:?\**:?[ \t]*(.*)")
_HINT = re.compile(r"[ \t]*@ ?lines? ?(\d{1,7})\b.*")
_KEYWORD = re.compile(r"(?:file ?name|file|path|title)[ \t]*[:=]", re.IGNORECASE)
_NOT_IN_PATHS = re.compile(r"[\s()<>=,;:{}\[\]`*'\"]")
_SUFFIXES = (".py", ".pyi", ".toml", ".cfg", ".ini", ".txt", ".json", ".yaml", ".yml", ".pth", ".lock", ".md", ".sh")


@dataclass(frozen=True, slots=True)
class Definition:
    """A code fence under a path that may hold whole definitions to put in place of those of the same name."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply says.

    `cannot_fix` is the reason that the model gives for proposing nothing, `fault` why the form of the reply cannot be
    read; both are "" otherwise.
    """

    diagnosis: str
    edits: tuple[Edit, ...]
    cannot_fix: str = ""
    definitions: tuple[Definition, ...] = ()
    fault: str = ""


def read_patch(engine: str, reply: str, sources: Sequence[Source]) -> Patch | Refusal:
    """The patch that `reply` asks for, or why there is none.

    `sources` are the files that may be edited; the patch has only those of them that change. Never raises, whatever
    the text of reply and sources.
    """
    try:
        return _read(engine, reply, {source.path: source for source in sources})
    except Unusable as fault:
        return Refusal(engine, str(fault), reply[:MAX_REPLY])


def parse(reply: str, paths: Sequence[str] = ()) -> Reply:
    """The parts of a reply; `paths` are files known to exist, which lets their names hold blanks. Never raises."""
    if len(reply) > MAX_REPLY:
        return Reply(
            "", (), fault=f"The reply is longer than {MAX_REPLY} characters. Write only the lines that change."
        )
    if reply.lstrip().startswith("<think>"):
        reply = reply.rpartition("</think>")[2]
    lines = [line.rstrip("\r\n") for line in split_lines(reply)]
    prose: list[str] = []
    try:
        blocks, rest = _split_blocks(lines)
        prose = blocks[0][0] if blocks else rest
        definitions = () if blocks else tuple(_fenced_definitions(rest, paths))
        edits = _located(blocks, paths)
    except Unusable as fault:
        return Reply(_diagnosis(prose, paths), (), fault=str(fault))
    reasons = [match[1].strip() for line in [*prose, *rest] if (match := _CANNOT.fullmatch(line[:_MAX_LABEL]))]
    cannot_fix = (reasons[0] or "no reason given") if reasons else ""
    return Reply(_diagnosis(prose, paths), edits, cannot_fix, definitions)


# -- reading the form ------------------------------------------------------------------------------------------------

_Block = tuple[list[str], list[str], list[str]]  # the lines before it, SEARCH, REPLACE


def _split_blocks(lines: list[str]) -> tuple[list[_Block], list[str]]:
    """The blocks, and the lines after the last one."""
    blocks: list[_Block] = []
    before: list[str] = []
    rest = iter(lines)
    for line in rest:
        opening = _OPEN.fullmatch(line)
        if opening:
            blocks.append((before, *_block_body(rest, opening[1], len(blocks) + 1)))
            before = []
        elif _CLOSE.fullmatch(line):
            raise Unusable(f"A `>>>>>>> REPLACE` after block {len(blocks)} has no `<<<<<<< SEARCH` before it.")
        else:
            before.append(line)
        if len(blocks) > MAX_BLOCKS:
            raise Unusable(f"The reply has more than {MAX_BLOCKS} blocks. Propose a small fix.")
    return blocks, before


def _block_body(rest: Iterator[str], indent: str, number: int) -> tuple[list[str], list[str]]:
    divider = indent + "======="
    parts: list[list[str]] = [[]]
    for line in rest:
        if _CLOSE.fullmatch(line):
            break
        if _OPEN.fullmatch(line):
            raise Unusable(f"Block {number} has no `>>>>>>> REPLACE` before the next `<<<<<<< SEARCH` begins.")
        if line.rstrip() == divider:
            parts.append([])
        else:
            parts[-1].append(line)
    else:
        raise Unusable(
            f"The reply was cut short: block {number} has no `>>>>>>> REPLACE`. Write a shorter reply, with only the "
            "lines that change."
        )
    if len(parts) != 2:
        count = "no" if len(parts) == 1 else f"{len(parts) - 1}"
        raise Unusable(f"Block {number} has {count} lines of `=======`; exactly one divides SEARCH from REPLACE.")
    return parts[0], parts[1]


def _located(blocks: list[_Block], paths: Sequence[str]) -> tuple[Edit, ...]:
    """The blocks as edits; one without a path of its own is of the file of the block before it."""
    edits: list[Edit] = []
    path = ""
    for before, search, replace in blocks:
        named, hint = _label(before, paths)
        path = named or path
        edits.append(Edit(path, _joined(search), _joined(replace), hint))
    return tuple(edits)


def _joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _label(before: Sequence[str], paths: Sequence[str]) -> tuple[str, int | None]:
    """The path and the line hint that the lines before a block give it: the last that is a path, else a mention."""
    for line in reversed(before):
        path, hint = _path_line(line, paths)
        if path:
            return path, hint
    last = next((line for line in reversed(before) if line.strip() and not _FENCE.fullmatch(line)), "")
    mentioned = {part for part in last[:_MAX_LABEL].split("`")[1::2] if part in paths or _like_path(part)}
    return (mentioned.pop(), None) if len(mentioned) == 1 else ("", None)


def _path_line(line: str, paths: Sequence[str]) -> tuple[str, int | None]:
    """The path and the line hint of a line that is nothing but a path with its decoration, else ("", None)."""
    if len(line) > _MAX_LABEL:
        return "", None
    text = line.strip()
    hint = _HINT.search(text)
    if hint:
        text = text[: hint.start()]
    number = int(hint[1]) if hint else None
    for candidate in (text, *_undecorated(text)):
        if _normal(candidate) in paths or _like_path(candidate):
            return candidate, number
    return "", None


def _like_path(text: str) -> bool:
    return not _NOT_IN_PATHS.search(text) and ("/" in text[1:-1] or text.endswith(_SUFFIXES))


def _undecorated(text: str) -> Iterator[str]:
    """`text` without Markdown's signs, without `File:` before it, and, on a fence line, without the language."""
    fence = _FENCE.fullmatch(text)
    plain = _bare(fence[2] if fence else text)
    yield plain
    if keyword := _KEYWORD.match(plain):
        yield _bare(plain[keyword.end() :])
    if fence and (info := re.match(r"\w+[ \t:]+", plain)):
        named = plain[info.end() :]
        keyword = _KEYWORD.match(named)
        yield _bare(named[keyword.end() :] if keyword else named)


def _bare(text: str) -> str:
    return re.sub(r"^(?:[-+>]|\d{1,2}[.)])[ \t]+", "", text.strip()).lstrip(" \t*`\"'#").rstrip(" \t*`\"':,{}#")


def _normal(path: str) -> str:
    path = path.strip(" \t`")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path


def _fenced_definitions(lines: Sequence[str], paths: Sequence[str]) -> Iterator[Definition]:
    """The code fences that stand under a path of their own."""
    before: list[str] = []
    rest = iter(lines)
    for line in rest:
        fence = _FENCE.fullmatch(line)
        before.append(line)
        if not fence:
            continue
        body = _fence_body(rest, fence[1])
        path, _ = _label(before, paths)
        inner, _ = _path_line(body[0], paths) if body else ("", None)
        if inner or path:
            yield Definition(inner or path, _joined(body[1:] if inner else body))
        before = []


def _fence_body(rest: Iterator[str], mark: str) -> list[str]:
    body: list[str] = []
    for line in rest:
        if line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            return body
        body.append(line)
    raise Unusable(
        "The reply was cut short: a code fence is not closed. Write a shorter reply, with only what changes."
    )


def _diagnosis(prose: Sequence[str], paths: Sequence[str]) -> str:
    """The first words of the reply, in one line."""
    said: list[str] = []
    for line in prose[:50]:
        if _FENCE.fullmatch(line):
            break
        if not _path_line(line, paths)[0]:
            said.append(line[:_MAX_LABEL])
    text = " ".join(" ".join(said).split())
    return "".join(letter for letter in text if letter.isprintable())[:_MAX_LABEL]


# -- applying it -----------------------------------------------------------------------------------------------------


def _read(engine: str, text: str, sources: dict[str, Source]) -> Patch:
    reply = parse(text, tuple(sources))
    if reply.fault:
        raise Unusable(reply.fault)
    if not reply.edits and reply.cannot_fix:
        raise Unusable(f"The model sees no fix: {reply.cannot_fix}")
    files: dict[str, list[Line]] = {}
    for number, edit in enumerate(reply.edits, 1):
        path = _resolve(edit.path, sources, f"Block {number}")
        lines = files[path] if path in files else anchoring.lines_of(sources[path].text)
        files[path] = anchoring.replaced(lines, edit, f"Block {number} ({path})")
    for definition in () if reply.edits else reply.definitions:
        path = _resolve(definition.path, sources, "The code fence")
        lines = files[path] if path in files else anchoring.lines_of(sources[path].text)
        redefined = anchoring.redefined(lines, definition.text, path)
        if redefined is None:
            words = f"The code fence for {path} is not an edit. Write SEARCH/REPLACE blocks, like this:"
            raise Unusable(f"{words}\n\n{GRAMMAR}")
        files[path] = redefined
    if not files:
        raise Unusable(f"The reply has no edit block. Write it like this:\n\n{GRAMMAR}")
    rewrites = tuple(anchoring.rewritten(sources[path], lines) for path, lines in files.items())
    changed = tuple(rewrite for rewrite in rewrites if rewrite.before != rewrite.after)
    if not changed:
        raise Unusable("The blocks change nothing: REPLACE is the same as SEARCH. Write what the lines should become.")
    return Patch(engine, reply.diagnosis, changed)


def _resolve(path: str, sources: dict[str, Source], where: str) -> str:
    """The editable file that the model means, or a refusal that names the editable ones."""
    name = _normal(path)
    if name in sources:
        return name
    ends = [known for known in sources if name and known.endswith("/" + name)]
    if len(ends) == 1:
        return ends[0]
    allowed = ", ".join(sorted(sources)[:20]) or "none"
    if not name:
        raise Unusable(f"{where} has no path on the line above it. Files that may be edited: {allowed}.")
    raise Unusable(
        f"{where} is for {name[:200]}, which may not be edited. Files that may be edited: {allowed}. Tests and "
        "settings stay as they are: correct the code under test."
    )
