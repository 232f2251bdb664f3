"""Previews of hostile markup: nothing runs, nothing is loaded, text stays readable."""

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.console.creative_preview import preview_frame, safe_preview

HOSTILE = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    '<img src="https://evil.example/p.gif" onerror="alert(1)">',
    '<a href="javascript:alert(1)" onclick=alert(1)>x</a>',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    '<link rel="preconnect" href="https://evil.example">',
    '<base href="https://evil.example/"><form action="/x"><button formaction=//e></form>',
    '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
    "<svg><animate onbegin=alert(1) attributeName=x></svg><math><mtext></mtext></math>",
    '<p style="background:url(//evil.example)">x</p><p style="background:u\\72l(//e)">y</p>',
    '<p style="background: image-set(\'//evil.example\' 1x)">x</p><p style="a:/**/url(//e)">',
    "<style>@import url(https://evil.example/x.css);</style>",
    '<div style="x" STYLE=y onmouseover=z>ok</div><table background="//evil.example/b.png">',
    "</body></html><script>alert(1)",
    '"><script>alert(1)</script>',
    "<!-- --!><script>alert(1)</script> -->",
    "<b\x00onclick=alert(1)>x</b><scr\x00ipt>alert(1)</scr\x00ipt>",
]


class _Seen(HTMLParser):
    """All tags and attributes of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.styles += [value or "" for name, value in attrs if name == "style"]


def body_of(markup: str) -> str:
    document = safe_preview(markup).document
    head, _, body = document.partition("<body>")
    assert head.startswith(
        '<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    )
    return body


def check_harmless(markup: str) -> None:
    seen = _Seen()
    seen.feed(body_of(markup))
    assert not seen.tags & {"script", "img", "meta", "link", "base", "iframe", "style", "form"}
    assert not [name for name in seen.names if name.startswith("on")]
    assert not re.search(r"url|image-set|\\\\", " ".join(seen.styles))
    assert not seen.names & {"src", "srcset", "href", "srcdoc", "action", "background", "poster"}


@pytest.mark.parametrize("markup", HOSTILE)
def test_nothing_that_runs_or_loads_is_left(markup: str) -> None:
    check_harmless(markup)


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), max_size=6))
def test_nor_of_any_mixture_of_it(pieces: list[str]) -> None:
    check_harmless("".join(pieces))


@given(st.text(max_size=200), st.integers(-5, 10**6) | st.none())
def test_the_frame_has_no_permission_and_holds_the_document_whole(
    markup: str, side: int | None
) -> None:
    preview = safe_preview(markup)
    frame = preview_frame(preview, side, side)
    found = re.fullmatch(r'<iframe sandbox inert [^<>]*srcdoc="([^"<>]*)"></iframe>', frame)
    assert found is not None
    assert html.unescape(found.group(1)) == preview.document
    assert "allow-" not in frame.partition("srcdoc=")[0]


def test_plain_styles_stay() -> None:
    style = "color: rgb(1, 2, 3); width: calc(100% - 2px)"
    assert body_of(f'<p style="{style}">x</p>') == f'<p style="{style}">x</p></body>'


def test_what_is_left_out_is_counted_and_text_stays() -> None:
    markup = (
        '<p>A &lt;b&gt; <b>sale</b><br/><img src=x><img src=y></p><script>var a = "<b>"</script>'
    )
    preview = safe_preview(markup)
    assert preview.left_out == {"img": 2, "script": 1}
    stand_in = '<span class="left-out">img</span>'
    expected = f"<p>A &lt;b&gt; <b>sale</b><br>{stand_in}{stand_in}</p></body>"
    assert preview.document.endswith(f"<body>{expected}")
    assert safe_preview("").left_out == {}
