"""The page of a translator, used in Chromium and in Firefox: with a backend of its own that answers as it is told, and with a server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_serve
from browser import FIREFOX, Page, firefox
from test_serve import DOG

from mt_cli.explain.page import render_page

client, locked, start = test_serve.client, test_serve.locked, test_serve.start  # fixtures

FOLDER = Path(render_page.__code__.co_filename).parents[1] / "serve"
POLICY = "default-src 'none'; script-src 'nonce-n'; style-src 'nonce-n'; connect-src 'self'; img-src data:"
HOSTILE = "</script><img src=x onerror=alert(1)>"

# A translation are the words of a line in capitals. One that begins with "hold" waits for `release()`.
BACKEND = """
window.asked = [];
window.mtBackend = {
  languages: async () => [
    { code: "en", name: "English", targets: ["de", "he"] }, { code: "de", name: "German", targets: ["en"] },
    { code: "he", name: "Hebrew", targets: [] }],
  async translate({ source, target, q, alternatives }) {
    asked.push([source, target, q, alternatives]);
    if (q.startsWith("hold")) await new Promise((done) => { window.release = done; });
    if (q === "fail") throw new Error("nothing works");
    return { lines: q.split("\\n").map((line) => {
      const words = line.split(" "), best = target === "he" ? "\u05e9\u05dc\u05d5\u05dd" : line.toUpperCase(), n = words.length;
      return {
        source: line, texts: [best, ...["ONE", "TWO"].slice(0, alternatives)], estimate: 12.3, source_words: words,
        target_words: best.split(" "), attention: words.map((_, i) => words.map((_, j) => j === n - 1 - i ? 1 : 0)),
        doubts: /\\d/.test(line) ? [{ kind: "numbers", detail: "lost 7", words: [1] }] : [],
      };
    }) };
  },
  correct: null, file: null, mostCharacters: 3000,
};
"""


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def one_browser(request, tmp_path_factory):
    if request.param == "chromium":
        yield request.getfixturevalue("chromium")
    elif FIREFOX is None:
        pytest.skip("no firefox on PATH")
    else:
        with firefox(tmp_path_factory.mktemp("firefox")) as one:
            yield one


@pytest.fixture
def page(one_browser, tmp_path):
    """The page of `mt serve` as a file, with BACKEND. It has complained about nothing, and asked for nothing, when the test ends."""
    meta, text = '<meta charset="utf-8">', render_page("serve/page.html", nonce="n", token="secret", most=1)
    own = (FOLDER / "backend.js").read_text("utf-8")
    assert own in text
    text = text.replace(own, BACKEND)
    text = text.replace(meta, f'{meta}<meta http-equiv="Content-Security-Policy" content="{POLICY}">')
    (tmp_path / "page.html").write_text(text, "utf-8")
    yield from opened(one_browser, (tmp_path / "page.html").as_uri())


def opened(one_browser: Page, address: str) -> Iterator[Page]:
    one_browser.resize(1280, 800)
    one_browser.open("about:blank")
    one_browser.complaints.clear()
    one_browser.requests.clear()
    one_browser.open(address)
    one_browser.wait("document.querySelector('#target').value")
    one_browser.wait("document.activeElement === document.querySelector('#text')")  # by its attribute autofocus
    yield one_browser
    assert not one_browser.value("document.querySelector('img, iframe, script:not([nonce])')")
    assert one_browser.complaints == []
    site = address.partition("?")[0]
    assert [one for one in one_browser.requests if not one.startswith((site, "data:", "blob:"))] == []


def type_line(page: Page, text: str, translated: str) -> None:
    page.write(text)
    page.wait(f"document.querySelector('#lines').innerText.includes({json.dumps(translated)})")


def replace_text(page: Page, text: str) -> None:
    page.value("document.querySelector('#text').select()")
    page.write(text)


def texts(page: Page, selector: str) -> list[str]:
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")


def wait_for_status(page: Page, check: str) -> None:
    page.wait(f"document.querySelector('#status').textContent{check}")


def test_what_is_typed_is_translated_and_only_lines_that_are_new_are_asked_for(page):
    type_line(page, "a cat\na cat\n\na dog", "A DOG")
    assert texts(page, ".line .said") == ["A CAT", "A CAT", "A DOG"] and len(texts(page, ".line")) == 4
    type_line(page, " sees", "A DOG SEES")
    assert page.value("asked") == [["en", "de", "a cat\na dog", 0], ["en", "de", "a dog sees", 0]]
    assert texts(page, "#spoken") == ["A CAT\nA CAT\n\nA DOG SEES"]
    type_line(page, HOSTILE, HOSTILE.upper())


def test_no_request_has_more_than_a_server_takes(page):
    page.value(
        "document.querySelector('#text').value = Array.from({ length: 20 }, (_, i) => i + 'x'.repeat([1500, 4000, 1500][i] ?? 1)).join('\\n')"
    )
    page.press("Enter", is_ctrl=True)
    page.wait("document.querySelectorAll('.said').length === 20")
    assert page.value("asked.map(([, , q]) => q.split('\\n').length)") == [1, 16, 2, 1]
    assert page.value("asked.at(-1)[2].length") == 4001, "what is refused is asked for last"


def test_an_answer_that_is_out_of_date_is_dropped(page):
    late = "release(), new Promise((done) => setTimeout(done, 50))"
    page.write("hold")
    page.wait("window.release")
    replace_text(page, "a cat")
    page.wait("document.querySelector('#lines').innerText.includes('A CAT')")
    page.value(late)
    assert texts(page, ".said") == ["A CAT"] and page.value("asked.length") == 2
    replace_text(page, "hold")
    page.value("delete window.release")
    page.press("Enter", is_ctrl=True)
    page.wait("window.release")
    page.press("Escape")
    page.value(late)
    assert texts(page, ".said") == ["A CAT"] and page.value("document.querySelector('#lines').ariaBusy") == "false"


def test_doubts_are_marked_where_they_are_and_said_why(page):
    type_line(page, "in 7 days\na cat", "A CAT")
    assert texts(page, "#lines .doubted") == texts(page, "#shade .doubted") == ["7"]
    title = page.value("document.querySelector('#lines .doubted').title")
    assert texts(page, "p.doubt") == [title] == ["numbers differ: lost 7"]
    assert texts(page, ".aside") == ["12", "12"] and not page.value("document.querySelector('#legend').hidden")


def test_a_word_shades_what_it_was_translated_from(page):
    shaded = "[...document.querySelectorAll('#shade span')].filter((one) => one.style.background.includes('45%')).map((one) => one.textContent)"
    type_line(page, "a\nb a cat", "B A CAT")
    page.click(".line:last-child .word", move_only=True)
    page.wait(f"{shaded}.join() === 'cat'")
    page.click("h1", move_only=True)
    page.wait(f"{shaded}.length === 0")
    page.value("document.querySelector('.line:last-child .said').focus()")
    for key in ("Right", "Right", "Right", "Right", "Left", "Right"):
        page.press(f"Arrow{key}")
    assert page.value(shaded) == ["b"] and texts(page, "#spoken") == ["CAT \u2190 b"]
    assert page.value("document.querySelector('#shade').offsetHeight === document.querySelector('#text').offsetHeight")


def test_a_line_opens_its_other_translations_and_a_correction_is_kept_for_a_download(page):
    type_line(page, "a dog\na\tcat", "A DOG")
    page.click(".line:last-child .said")
    page.wait("document.querySelectorAll('.others button').length === 2")
    assert page.value("asked.at(-1)") == ["en", "de", "a\tcat", 4] and texts(page, ".others button") == ["ONE", "TWO"]
    page.click(".others button")
    page.write("  !")
    page.press("Enter")
    assert texts(page, ".said") == ["A DOG", "ONE !"] and texts(page, ".aside") == ["12", "corrected"]
    assert page.value("document.activeElement.textContent") == "ONE !" and texts(page, ".panel") == []
    page.press(" ")
    page.wait("document.querySelectorAll('.others button').length === 3")
    assert texts(page, ".others button") == ["A\tCAT", "ONE", "TWO"]
    page.click(".others button")
    assert not page.value("document.querySelector('.panel .main').disabled"), "it can be taken back"
    page.press("Escape")
    page.wait("!document.querySelector('.panel')")
    page.click("#download")
    assert page.downloaded("corrections.en-de.tsv") == "en\tde\na cat\tONE !\n"
    page.wait("document.querySelector('#download').hidden")


def test_languages_are_swapped_with_their_text_where_both_directions_exist(page):
    type_line(page, "a cat", "A CAT")
    page.click("#swap")
    page.wait("asked.length === 2")
    assert page.value("asked.at(-1)") == ["de", "en", "A CAT", 0] and page.value("location.hash") == "#de/en"
    assert page.value("document.querySelector('#text').lang") == "de"
    replace_text(page, "hold a dog")
    page.wait("window.release")
    page.click("#swap")
    assert page.value("document.querySelector('#text').value") == "hold a dog", "what has no translation yet stays"
    address = page.value("location.href.split('#')[0] + '#en/he'")
    page.open("about:blank")  # else the page would not be loaded anew
    page.open(address)
    page.wait("document.querySelector('#target')?.value === 'he'")
    assert page.value("document.querySelector('#swap').disabled")


def test_it_fits_a_phone_and_writes_from_right_to_left(page):
    page.resize(390, 844)
    page.value("document.querySelector('#target').value = 'he'")
    page.value("document.querySelector('#target').dispatchEvent(new Event('change'))")
    type_line(page, "a 5 " + "Donaudampfschifffahrt" * 8, "\u05e9\u05dc\u05d5\u05dd")
    page.click(".said")
    page.wait("document.querySelector('.others button')")
    assert page.value("[innerWidth, document.documentElement.scrollWidth - document.documentElement.clientWidth]") == [390, 0]  # fmt: skip
    directions = "['.said', '#text'].map((one) => getComputedStyle(document.querySelector(one)).direction)"
    assert page.value(directions) == ["rtl", "ltr"]


def test_an_error_is_shown_until_something_works(page, tmp_path):
    page.drop(tmp_path / "page.html")
    wait_for_status(page, " === 'This page translates no files.'")
    assert page.value("document.querySelector('#choose').hidden")
    page.write("fail")
    wait_for_status(page, " === 'nothing works'")
    replace_text(page, "a cat")
    wait_for_status(page, " === ''")


@pytest.fixture
def served(one_browser, client):
    yield from opened(one_browser, client.url + "/")


def test_a_server_translates_what_is_typed_in_its_page_its_answer_is_copied_and_its_error_shown(served):
    served.value("document.querySelector('#source').value = 'en'")
    type_line(served, "the red cat\nthe dog sees", DOG[1])
    assert texts(served, ".said")[1] == DOG[1] and texts(served, ".aside") and texts(served, ".word")
    served.click("#copy")
    wait_for_status(served, " === 'Copied.'")
    copied = "\n".join(texts(served, ".said"))
    served.value("document.querySelector('#text').select()")
    served.paste()
    assert served.value("document.querySelector('#text').value") == copied
    served.write("a " * 6000)
    wait_for_status(served, ".includes('text limit')")
    served.complaints.clear()  # Chromium writes each status of 400 into the console


def test_a_correction_in_the_page_is_kept_in_the_folder_of_the_run(served, client):
    type_line(served, DOG[0], DOG[1])
    served.click(".said")
    served.wait("document.querySelector('.others p').textContent !== 'Looking for other translations\u2026'")
    assert texts(served, ".others button") and DOG[1] not in texts(served, ".others button")
    served.click(".panel textarea")
    served.write(" \u00fcber")
    served.click(".main")
    wait_for_status(served, ".startsWith('Kept')")
    assert served.value("document.querySelector('#download').hidden")
    kept = client.service.translators.served["en", "de"].corrections_file().read_text("utf-8")
    assert f"{DOG[0]}\t{texts(served, '.said')[0]}\t" in kept and "\u00fcber" in kept


def test_a_server_with_keys_answers_its_page(one_browser, locked):
    for page in opened(one_browser, f"{locked.url}/?api_key=s3cret"):
        type_line(page, DOG[0], DOG[1])


def test_a_server_translates_files_that_are_dropped_onto_its_page(served, tmp_path):
    text, table = tmp_path / "über.txt", tmp_path / "menu.csv"
    text.write_text(f"{DOG[0]}\n\n{DOG[0]}\n", "utf-8")
    served.drop(text)
    wait_for_status(served, ".startsWith('über.txt is translated')")
    name = served.value("document.querySelector('#status').textContent").rpartition(": ")[2]
    assert served.downloaded(name) == f"{DOG[1]}\n\n{DOG[1]}\n"
    table.write_text(f"en,de\n{DOG[0]},\n", "utf-8")
    served.drop(table)
    served.wait("document.querySelector('#table').open")
    assert texts(served, "#table-name") == ["menu.csv is a table. Its first row: en,de"]
    served.write("en,de")
    served.press("Enter")
    assert served.downloaded("menu_de.csv") == f"en,de\n{DOG[0]},{DOG[1]}\n"
    assert served.value("document.querySelector('#text').value") == "", "Enter is for the dialog alone"
    (tmp_path / "sign.xyz").write_text("no document")
    (tmp_path / "last.txt").write_text(f"{DOG[0]}\n")
    served.drop(tmp_path / "sign.xyz", tmp_path / "last.txt")
    assert served.downloaded("last_de.txt") == f"{DOG[1]}\n", "a failure stops no other"
    wait_for_status(served, ".startsWith('sign.xyz: ')")
    served.complaints.clear()  # Chromium writes each status of 400 into the console
