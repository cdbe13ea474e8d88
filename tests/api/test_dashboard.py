"""The files of the dashboard, as they are served."""

import gzip
import re

import pytest

from api.dashboard.page import INDEX, PREFIX, read_static
from tests.api.http.yard import Yard

FILES = read_static()
MODULES = [name for name in FILES if name.endswith(".js")]


def test_page_is_served_at_the_root_with_a_strict_policy(any_yard: Yard) -> None:
    page = any_yard.client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", list(FILES))
def test_file_is_served_once_and_not_again(any_yard: Yard, name: str) -> None:
    answer = any_yard.client.get(PREFIX + name)
    assert answer.content == FILES[name].content
    again = any_yard.client.get(PREFIX + name, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert gzip.decompress(FILES[name].packed) == FILES[name].content


@pytest.mark.parametrize("name", list(FILES))
def test_file_loads_nothing_from_elsewhere(name: str) -> None:
    text = FILES[name].content.decode()
    found = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert found <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", MODULES)
def test_script_never_makes_markup_of_text(name: str) -> None:
    text = FILES[name].content.decode()
    unsafe = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    assert not re.search(unsafe, text)


def test_every_module_is_there_and_loaded_early() -> None:
    page = FILES[INDEX].content.decode()
    early = set(re.findall(r'modulepreload" href="/dashboard/([\w-]+\.js)"', page))
    wanted = {
        other for name in MODULES for other in re.findall(r'from "\./([\w-]+\.js)"', _text(name))
    }
    assert wanted <= set(MODULES)
    assert early == wanted


def test_files_are_of_a_size_that_can_be_read() -> None:
    assert {name: n for name in FILES if (n := _text(name).count("\n")) > 500} == {}


def _text(name: str) -> str:
    return FILES[name].content.decode()
