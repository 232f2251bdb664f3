"""A safe preview of an advertiser's markup: it runs nothing and reaches nobody.

The markup is somebody else's program. Three barriers, of which each alone should do:

* it is written again with a few harmless tags and attributes; everything else is left out;
* a content security policy lets the document load nothing;
* the frame is sandboxed without any permission (no script, form, popup, navigation, and an origin
  of its own) and inert, so that nothing in it can be clicked.
"""

import html
import re
from dataclasses import dataclass
from html.parser import HTMLParser

__all__ = ["Preview", "preview_frame", "safe_preview"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_NAMES = """a abbr b big blockquote br caption center cite code dd del dfn div dl dt em figcaption
    figure font footer h1 h2 h3 h4 h5 h6 header hr i ins kbd li mark ol p pre q s samp section small
    span strike strong sub sup table tbody td tfoot th thead tr tt u ul var"""
_TAGS = frozenset(_NAMES.split())
_EMPTY = frozenset(("br", "hr"))
_HIDDEN = frozenset(("script", "style", "title", "noscript", "template", "iframe", "object"))
_ATTRIBUTES = frozenset(
    ("align", "bgcolor", "color", "colspan", "dir", "height", "lang", "rowspan", "valign", "width")
)
_FUNCTION = re.compile(r"([\w-]*)\s*\(")  # of CSS: url() and others load something
_FUNCTIONS = frozenset(
    ("rgb", "rgba", "hsl", "hsla", "calc", "linear-gradient", "rotate", "scale", "translate")
)
_MAX_SIDE = 2_000


@dataclass(frozen=True)
class Preview:
    """A whole document, and what of the markup is not in it: how often, by tag."""

    document: str
    left_out: dict[str, int]


class _Writer(HTMLParser):
    """Writes harmless tags and all text again."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.left_out: dict[str, int] = {}
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write a tag, or what stands for it."""
        if tag not in _TAGS:
            self.left_out[tag] = self.left_out.get(tag, 0) + 1
            if tag in _HIDDEN:
                self._hidden += 1
            elif tag in ("img", "picture", "video", "audio", "canvas", "svg", "embed"):
                self.pieces.append(f'<span class="left-out">{html.escape(tag)}</span>')
            return
        given = (
            f' {name}="{html.escape(value or "", quote=True)}"'
            for name, value in attrs
            if name in _ATTRIBUTES or (name == "style" and self._is_plain(value or ""))
        )
        self.pieces.append(f"<{tag}{''.join(given)}>")

    def _is_plain(self, style: str) -> bool:
        """Whether a style loads nothing; escapes and comments could hide that it does."""
        plain = "\\" not in style and "/*" not in style
        plain = plain and set(_FUNCTION.findall(style.lower())) <= _FUNCTIONS
        if not plain:
            self.left_out["style"] = self.left_out.get("style", 0) + 1
        return plain

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As a browser does: a slash at the end means nothing."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        if tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif tag in _TAGS and tag not in _EMPTY:
            self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Text, but not that of scripts and styles."""
        if not self._hidden:
            self.pieces.append(html.escape(data))


def safe_preview(markup: str) -> Preview:
    """The preview of some markup.

    >>> preview = safe_preview('<b onclick="x()">Sale</b><script>steal()</script><img src="//a.b">')
    >>> preview.document.partition("<body>")[2]
    '<b>Sale</b><span class="left-out">img</span></body>'
    >>> preview.left_out
    {'script': 1, 'img': 1}
    """
    writer = _Writer()
    writer.feed(markup)
    writer.close()
    head = (
        f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta charset="utf-8"><style>body{margin:0;font-family:sans-serif;overflow:hidden}'
        ".left-out{display:inline-block;border:1px dashed #888;color:#555;padding:.2em .5em;"
        "font-size:12px}</style>"
    )
    return Preview(f"{head}<body>{''.join(writer.pieces)}</body>", writer.left_out)


def preview_frame(preview: Preview, width: int | None, height: int | None) -> str:
    """The frame that shows a preview, as HTML."""
    sides = (
        min(max(side or default, 1), _MAX_SIDE) for side, default in ((width, 300), (height, 250))
    )
    wide, high = sides
    document = html.escape(preview.document, quote=True)
    return (
        f'<iframe sandbox inert tabindex="-1" referrerpolicy="no-referrer" title="Preview" '
        f'width="{wide}" height="{high}" style="border:1px solid #888;background:#fff" '
        f'srcdoc="{document}"></iframe>'
    )
