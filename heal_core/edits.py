"""The reply grammar, both ways: what the prompt tells the model of it, and the reader that turns a reply into a patch.

Edits are anchored on text, never on line numbers, since models count badly. A reply that cannot be applied becomes a
`Refusal` whose reason says which block, how the nearest lines stand, and what to write instead.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from heal_core.patch import Patch, Refusal, Rewrite
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
_MAX_PLACES = 200  # where a SEARCH may stand, before a line hint is of no use
_MAX_ALIGNED = 400  # lines of a block that are aligned one by one; more are replaced as a whole

_OPEN = re.compile(r"([ \t]*)<{5,9} ?SEARCH[ \t]*")
_CLOSE = re.compile(r"[ \t]*>{5,9} ?REPLACE[ \t]*")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_CANNOT = re.compile(r"[ \t>*_#]*CANNOT FIX:?\**:?[ \t]*(.*)")
_HINT = re.compile(r"[ \t]*@ ?lines? ?(\d{1,7})\b.*")
_KEYWORD = re.compile(r"(?:file ?name|file|path|title)[ \t]*[:=]", re.IGNORECASE)
_NOT_IN_PATHS = re.compile(r"[\s()<>=,;:{}\[\]`*'\"]")
_SUFFIXES = (".py", ".pyi", ".toml", ".cfg", ".ini", ".txt", ".json", ".yaml", ".yml", ".pth", ".lock", ".md", ".sh")
_NUMBER = re.compile(r"[ \t]*\d{1,6} ?(?:\| ?|:(?: |$))")
_INDENT = re.compile(r"[ \t]*")

_DOTS = r"(?:\.\.\.|…)"
_LEFT_OUT = r"(?:file|code|module|class|function|method|body|implementation|lines|methods|functions)s?"
_ELIDED = re.compile(
    rf"""{_DOTS}\s*\w.*                                       # ...existing code...
      | (?:\#|//)\s*{_DOTS}.*                               # a comment that begins with dots
      | (?:\#|//).*\b(?:rest|remainder)\ of\ (?:\w+\ ){{0,2}}{_LEFT_OUT}\b.{{0,40}}
      | (?:\#|//).*\b(?:existing|remaining|previous|original|other)\ {_LEFT_OUT}\b.{{0,40}}
      | (?:\#|//)\s*(?:(?:rest|everything|{_LEFT_OUT})\b.*)?\b(?:unchanged|same\ as\ before|omitted)\b.{{0,20}}
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One SEARCH/REPLACE block.

    `path` is as the model wrote it ("" when none), `search` and `replace` are lines that each end in a line feed, and
    `line_hint` is the line, from 1, that the model pointed at.
    """

    path: str
    search: str
    replace: str
    line_hint: int | None = None


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


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a file being edited: text, its own end, and its number in the file as the model saw it."""

    text: str
    end: str
    number: int


class _Unusable(Exception):
    """The reply cannot be used, in words for the model."""


def read_patch(engine: str, reply: str, sources: Sequence[Source]) -> Patch | Refusal:
    """The patch that `reply` asks for, or why there is none.

    `sources` are the files that may be edited; the patch has only those of them that change. Never raises, whatever
    the text of reply and sources.
    """
    try:
        return _read(engine, reply, {source.path: source for source in sources})
    except _Unusable as fault:
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
    except _Unusable as fault:
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
            raise _Unusable(f"A `>>>>>>> REPLACE` after block {len(blocks)} has no `<<<<<<< SEARCH` before it.")
        else:
            before.append(line)
        if len(blocks) > MAX_BLOCKS:
            raise _Unusable(f"The reply has more than {MAX_BLOCKS} blocks. Propose a small fix.")
    return blocks, before


def _block_body(rest: Iterator[str], indent: str, number: int) -> tuple[list[str], list[str]]:
    divider = indent + "======="
    parts: list[list[str]] = [[]]
    for line in rest:
        if _CLOSE.fullmatch(line):
            break
        if _OPEN.fullmatch(line):
            raise _Unusable(f"Block {number} has no `>>>>>>> REPLACE` before the next `<<<<<<< SEARCH` begins.")
        if line.rstrip() == divider:
            parts.append([])
        else:
            parts[-1].append(line)
    else:
        raise _Unusable(
            f"The reply was cut short: block {number} has no `>>>>>>> REPLACE`. Write a shorter reply, with only the "
            "lines that change."
        )
    if len(parts) != 2:
        count = "no" if len(parts) == 1 else f"{len(parts) - 1}"
        raise _Unusable(f"Block {number} has {count} lines of `=======`; exactly one divides SEARCH from REPLACE.")
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
    raise _Unusable(
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
        raise _Unusable(reply.fault)
    if not reply.edits and reply.cannot_fix:
        raise _Unusable(f"The model sees no fix: {reply.cannot_fix}")
    files: dict[str, list[_Line]] = {}
    for number, edit in enumerate(reply.edits, 1):
        path = _resolve(edit.path, sources, f"Block {number}")
        lines = files[path] if path in files else _lines_of(sources[path].text)
        files[path] = _replaced(lines, edit, f"Block {number} ({path})")
    for definition in () if reply.edits else reply.definitions:
        path = _resolve(definition.path, sources, "The code fence")
        lines = files[path] if path in files else _lines_of(sources[path].text)
        files[path] = _redefined(lines, definition.text, path)
    if not files:
        raise _Unusable(f"The reply has no edit block. Write it like this:\n\n{GRAMMAR}")
    rewrites = tuple(_rewrite(sources[path], lines) for path, lines in files.items())
    changed = tuple(rewrite for rewrite in rewrites if rewrite.before != rewrite.after)
    if not changed:
        raise _Unusable("The blocks change nothing: REPLACE is the same as SEARCH. Write what the lines should become.")
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
        raise _Unusable(f"{where} has no path on the line above it. Files that may be edited: {allowed}.")
    raise _Unusable(
        f"{where} is for {name[:200]}, which may not be edited. Files that may be edited: {allowed}. Tests and "
        "settings stay as they are: correct the code under test."
    )


def _lines_of(text: str) -> list[_Line]:
    """The lines of a file; the last one is given the end of the one before it where it has none."""
    lines: list[_Line] = []
    for number, whole in enumerate(split_lines(text), 1):
        bare = whole.rstrip("\r\n")
        lines.append(_Line(bare, whole[len(bare) :] or (lines[-1].end if lines else "\n"), number))
    return lines


def _rewrite(source: Source, lines: list[_Line]) -> Rewrite:
    """The file with its new lines; one that had no line end after its last line has none afterwards."""
    parts = [line.text + line.end for line in lines]
    if parts and not source.text.endswith(("\n", "\r")):
        parts[-1] = lines[-1].text
    try:
        return Rewrite(source.path, source.encode(source.text), source.encode("".join(parts)))
    except UnicodeEncodeError as error:
        letter = str(error.object)[error.start : error.end][:10]
        raise _Unusable(f"{source.path} is in {source.encoding}, which has no place for {letter!a}.") from None
    except (LookupError, UnicodeError):
        raise _Unusable(f"{source.path} is in {source.encoding!a}, which cannot be written.") from None


def _replaced(lines: list[_Line], edit: Edit, where: str) -> list[_Line]:
    """The file's lines after one edit."""
    search, replace = edit.search.split("\n")[:-1], edit.replace.split("\n")[:-1]
    if not any(line.strip() for line in search):
        _refuse_elision(replace, [], where)
        raise _Unusable(f"{where}: SEARCH is empty. Copy into it the lines to change, and into REPLACE their new form.")
    start, search, replace, fitted = _anchored(lines, search, replace, edit.line_hint, where)
    end = start + len(search)
    fresh = _merged(lines[start:end], search, replace, fitted)
    _refuse_elision(fitted, [line.text for line in lines[start:end]], where)
    _refuse_mixed_indent(lines, fresh, where)
    return lines[:start] + fresh + lines[end:]


_Pair = tuple[list[str], list[str] | None]  # SEARCH and REPLACE, the latter None when it does not fit the former


def _readings(search: list[str], replace: list[str]) -> Iterator[_Pair]:
    """The block as written, without blank lines around it, and without line numbers."""
    yield search, replace
    first = next(i for i, line in enumerate(search) if line.strip())
    last = next(i for i, line in enumerate(reversed(search)) if line.strip())
    if first or last:
        search, replace = search[first : len(search) - last], _less_blank(replace, first, last)
        yield search, replace
    if all(_NUMBER.match(line) for line in search if line.strip()):
        numbered = all(_NUMBER.match(line) for line in replace if line.strip())
        yield _unnumbered(search), _unnumbered(replace) if numbered else None


def _less_blank(lines: list[str], first: int, last: int) -> list[str]:
    """`lines` without up to `first` blank lines at the top and `last` at the bottom."""
    written = [i for i, line in enumerate(lines) if line.strip()]
    if not written:
        return []
    return lines[min(first, written[0]) : max(len(lines) - last, written[-1] + 1)]


def _unnumbered(lines: list[str]) -> list[str]:
    return [_NUMBER.sub("", line, count=1) for line in lines]


def _anchored(
    lines: list[_Line], search: list[str], replace: list[str], hint: int | None, where: str
) -> tuple[int, list[str], list[str], list[str]]:
    """Where SEARCH stands (from 0), SEARCH and REPLACE in a form to compare, and REPLACE as it fits there."""
    readings = tuple(_readings(search, replace))
    for key in (str, str.rstrip, str.strip):
        have = [key(line.text) for line in lines]
        for written, new in readings:
            places = _places(have, [key(line) for line in written])
            shifts = {at: _shift(lines[at : at + len(written)], written) for at in places} if key is str.strip else {}
            places = [at for at in places if at not in shifts or shifts[at]]
            if not places:
                continue
            if new is None:
                raise _Unusable(
                    f"{where}: SEARCH has line numbers, but not every line of REPLACE. Write none in either."
                )
            at = _chosen(lines, places, hint, where)
            fitted = [_fitted(line, shifts.get(at), where) for line in new]
            if key is str:
                return at, written, new, fitted
            return at, [line.rstrip() for line in written], [line.rstrip() for line in new], fitted
    raise _Unusable(_not_found(lines, readings[-1][0], where))


def _places(have: list[str], wanted: list[str]) -> list[int]:
    """The indexes, from 0, at which the lines `wanted` stand in `have`; no more than _MAX_PLACES + 1 are looked for."""
    text = "\n" + "\n".join(have) + "\n"
    needle = "\n" + "\n".join(wanted) + "\n"
    found: list[int] = []
    at, line, seen = text.find(needle), 0, 0
    while at >= 0 and len(found) <= _MAX_PLACES:
        line += text.count("\n", seen, at)
        seen = at
        found.append(line)
        at = text.find(needle, at + 1)
    return found


def _chosen(lines: list[_Line], places: list[int], hint: int | None, where: str) -> int:
    """The one place, or the one nearest to the hint."""
    if len(places) == 1:
        return places[0]
    far = sorted(places, key=lambda at: abs(lines[at].number - hint)) if hint and len(places) <= _MAX_PLACES else []
    if far and hint and abs(lines[far[0]].number - hint) != abs(lines[far[1]].number - hint):
        return far[0]
    numbers = ", ".join(str(lines[at].number) for at in places[:8]) + (", ..." if len(places) > 8 else "")
    raise _Unusable(
        f"{where}: SEARCH stands {len(places)} times, at lines {numbers}. Add lines from around the right place to "
        f"SEARCH and REPLACE, or write `@ line {lines[places[0]].number}` (the right one) after the path."
    )


# -- indentation -----------------------------------------------------------------------------------------------------

_Shift = Callable[[str], "str | None"]  # from the indentation as written to the file's, None where it does not fit


def _indent(text: str) -> str:
    match = _INDENT.match(text)
    return match[0] if match else ""


def _shift(old: Sequence[_Line], written: Sequence[str]) -> _Shift | None:
    """How the indentation of the file differs from the written one, or None when it does not do so uniformly."""
    pairs = {(_indent(new), _indent(line.text)) for line, new in zip(old, written, strict=True) if new.strip()}
    new, have = min(pairs, key=lambda pair: (len(pair[0]), pair))
    if have.endswith(new):
        more = have[: len(have) - len(new)]
        if all(there == more + here for here, there in pairs):
            return lambda indent: more + indent
    if new.endswith(have):
        less = new[: len(new) - len(have)]
        if all(here == less + there for here, there in pairs):
            return lambda indent: indent[len(less) :] if indent.startswith(less) else None
    return _spaces_to_tabs(pairs)


def _spaces_to_tabs(pairs: set[tuple[str, str]]) -> _Shift | None:
    """The shift for a file indented with tabs and a model that wrote blanks: so many for a tab, plus an offset."""
    if any(here.strip(" ") or there.strip("\t") for here, there in pairs):
        return None
    counts = sorted((len(there), len(here)) for here, there in pairs)
    (tabs, blanks), (most_tabs, most_blanks) = counts[0], counts[-1]
    if most_tabs > tabs:
        width = (most_blanks - blanks) // (most_tabs - tabs)
    else:
        width = blanks // tabs if tabs and blanks % tabs == 0 else 4
    offset = blanks - width * tabs
    if not 1 <= width <= 8 or any(b != width * t + offset for t, b in counts):
        return None

    def shift(indent: str) -> str | None:
        steps, rest = divmod(len(indent) - offset, width)
        return "\t" * steps if steps >= 0 and not rest and not indent.strip(" ") else None

    return shift


def _fitted(line: str, shift: _Shift | None, where: str) -> str:
    """A line of REPLACE with the indentation of the file."""
    if shift is None or not line.strip():
        return line
    indent = _indent(line)
    moved = shift(indent)
    if moved is None:
        raise _Unusable(
            f"{where}: the indentation of SEARCH differs from the file's, and that of REPLACE does not follow it in "
            f"the line `{line.strip()[:100]}`. Copy the indentation of the file exactly, tabs as tabs."
        )
    return moved + line[len(indent) :]


def _refuse_mixed_indent(lines: Sequence[_Line], fresh: Sequence[_Line], where: str) -> None:
    """New lines may not bring tabs into a file of blanks, nor blanks into a file of tabs."""
    known = set(lines)
    used = {line.text[0] for line in lines if line.text.strip() and line.text[0] in " \t"}
    for line in fresh:
        if line not in known and line.text.strip() and used and line.text[0] in {" ", "\t"} - used:
            style = "tabs" if used == {"\t"} else "blanks"
            raise _Unusable(f"{where}: the file is indented with {style}; write `{line.text.strip()[:100]}` so too.")


# -- putting lines in ------------------------------------------------------------------------------------------------


def _merged(old: Sequence[_Line], search: list[str], replace: list[str], fitted: list[str]) -> list[_Line]:
    """The old lines with the new ones among them, which take the line ends of those that they replace or stand behind.

    What SEARCH and REPLACE have in common is kept as it stands in the file, so that its bytes do not change.
    """
    merged: list[_Line] = []
    for tag, i1, i2, j1, j2 in _opcodes(search, replace):
        if tag == "equal":
            merged += old[i1:i2]
            continue
        for at in range(j1, j2):
            like = old[max(min(i1 + at - j1, i2 - 1), 0)]
            merged.append(_Line(fitted[at], like.end, like.number))
    return merged


def _opcodes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Like `SequenceMatcher.get_opcodes`, in bounded time."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    i2, j2 = len(old) - tail, len(new) - tail
    middle = [("replace", head, i2, head, j2)] if i2 > head or j2 > head else []
    if i2 - head + j2 - head <= _MAX_ALIGNED:
        codes = difflib.SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False).get_opcodes()
        middle = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in codes]
    return [("equal", 0, head, 0, head), *middle, ("equal", i2, len(old), j2, len(new))]


def _refuse_elision(lines: Sequence[str], standing: Sequence[str], where: str) -> None:
    """Refuses lines that stand for code left out, unless the file has them at that place."""
    known = {line.strip() for line in standing}
    before = ""
    for line in lines:
        text = line.strip()
        bare = text.partition("#")[0].rstrip() in ("...", "…") and not before.endswith(":")
        if text not in known and (bare or (len(text) <= _MAX_LABEL and _ELIDED.fullmatch(text))):
            raise _Unusable(
                f"{where}: REPLACE has the line `{text[:100]}` in place of code. It would be taken literally and the "
                "code would be lost: only the changed lines are to be written, and SEARCH holds just what they replace."
            )
        before = text or before


def _not_found(lines: Sequence[_Line], search: Sequence[str], where: str) -> str:
    """Says that SEARCH stands nowhere, and shows the lines that are most like it."""
    if any(line.strip() in ("...", "…") or _ELIDED.fullmatch(line.strip()[:_MAX_LABEL]) for line in search):
        return f"{where}: SEARCH leaves lines out. It must hold whole, consecutive lines; make it short instead."
    at = _nearest([line.text.strip()[:120] for line in lines[:20000]], [line.strip()[:120] for line in search[:50]])
    if at is None:
        return f"{where}: SEARCH stands nowhere in the file, nor does anything like it. Copy the lines as they stand."
    shown = lines[max(at - 1, 0) : at + min(len(search), 12) + 1]
    listing = "\n".join(f"{line.number:4} | {line.text[:200]}" for line in shown)
    return (
        f"{where}: SEARCH was not found. The nearest lines stand so:\n{listing}\n"
        "Copy them exactly into SEARCH, without the numbers."
    )


def _nearest(have: list[str], wanted: list[str]) -> int | None:
    """The index at which `wanted` would begin: where most of its lines stand, else where one like its longest does."""
    where: dict[str, list[int]] = {}
    for number, line in enumerate(have):
        where.setdefault(line, []).append(number)
    votes: dict[int, int] = {}
    for offset, line in enumerate(wanted):
        for number in where.get(line, [])[:100] if line else []:
            votes[number - offset] = votes.get(number - offset, 0) + len(line)
    if votes:
        return max(0, max(votes, key=lambda at: (votes[at], -at)))
    longest = max(wanted, key=len)
    alike = difflib.get_close_matches(longest, list(where)[:1000], n=1, cutoff=0.5)
    return max(0, where[alike[0]][0] - wanted.index(longest)) if alike else None


# -- whole definitions -----------------------------------------------------------------------------------------------

_Def = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_AnyDef = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _redefined(lines: list[_Line], text: str, path: str) -> list[_Line]:
    """The file's lines with each definition of a code fence in place of the one of the same name."""
    written = _dedented(text.split("\n")[:-1])
    new = _parsed(written)
    if new is None or not new.body or not all(isinstance(node, _Def) for node in new.body):
        raise _Unusable(
            f"The code fence for {path} is not an edit. Write SEARCH/REPLACE blocks, like this:\n\n{GRAMMAR}"
        )
    names = [node.name for node in new.body if isinstance(node, _Def)]
    if len(set(names)) < len(names):
        raise _Unusable(f"The code fence for {path} defines a name twice. Write SEARCH/REPLACE blocks.")
    for node in new.body:
        if isinstance(node, _Def):
            lines = _definition_replaced(lines, node, written, path)
    return lines


def _definition_replaced(lines: list[_Line], node: _AnyDef, written: list[str], path: str) -> list[_Line]:
    tree = _parsed([line.text for line in lines])
    found = [old for old in ast.walk(tree) if isinstance(old, _Def) and old.name == node.name] if tree else []
    where = f"The code fence for {path}"
    if len(found) != 1:
        count = f"stands there {len(found)} times" if found else "does not stand there"
        raise _Unusable(f"{where} defines `{node.name}`, which {count}. Write SEARCH/REPLACE blocks.")
    start, end = _extent(found[0])
    old, indent = [line.text for line in lines[start:end]], _indent(lines[start].text)
    new = [indent + line if line.strip() else line for line in written[slice(*_extent(node))]]
    fresh = _merged(lines[start:end], [line.rstrip() for line in old], [line.rstrip() for line in new], new)
    _refuse_elision(new, old, where)
    _refuse_mixed_indent(lines, fresh, where)
    return lines[:start] + fresh + lines[end:]


def _extent(node: _AnyDef) -> tuple[int, int]:
    """First line, from 0, and the line behind the last, with the decorators."""
    return min(part.lineno for part in (node, *node.decorator_list)) - 1, node.end_lineno or node.lineno


def _dedented(lines: list[str]) -> list[str]:
    margin = min((len(_indent(line)) for line in lines if line.strip()), default=0)
    return [line[margin:] for line in lines]


def _parsed(lines: Sequence[str]) -> ast.Module | None:
    try:
        return ast.parse("\n".join(lines) + "\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
