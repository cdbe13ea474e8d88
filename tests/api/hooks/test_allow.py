"""Where hooks may be."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.hooks.allow import Allowed, HookRefused, parse, read_allowed, why_never

OPEN = read_allowed(["0.0.0.0/0", "::/0"], loopback=False)
ALONE = read_allowed([], loopback=True)
LISTED = read_allowed(["trainer.example.com", "*.hooks.example.com", "10.1.0.0/16"], loopback=False)


def refusal(allowed: Allowed, url: str) -> str:
    with pytest.raises(HookRefused) as caught:
        allowed.check_url(url)
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://trainer.example.com/hooks",
        "http://TRAINER.example.com.:8443/hooks?x=1",
        "https://a.hooks.example.com",
        "http://10.1.2.3/",
        # May turn out to be in a listed network.
        "https://elsewhere.example.org/",
    ],
)
def test_a_listed_place_is_allowed(url: str) -> None:
    LISTED.check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.1.1/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
        "http://0.0.0.0/",
        "http://0.1.2.3/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://240.0.0.1/",
        "http://[::]/",
        "http://[ff02::1]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:10.1.2.3]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://127.0.0.1/",
        "http://127.8.9.10/",
        "http://[::1]/",
    ],
)
def test_an_address_that_is_never_a_hook_is_refused_though_all_are_listed(url: str) -> None:
    refusal(OPEN, url)


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.0.01", "1"]
)
@pytest.mark.parametrize("allowed", [OPEN, ALONE, LISTED])
def test_other_ways_to_write_an_address_are_refused(allowed: Allowed, host: str) -> None:
    assert "four decimal numbers" in refusal(allowed, f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://trainer.example.com/", "http and https"),
        ("file:///etc/passwd", "http and https"),
        ("trainer.example.com/hooks", "http and https"),
        ("https://", "neither a name nor an address"),
        ("https://user:secret@trainer.example.com/", "user or password"),
        ("https://trainer.example.com@evil.example/", "user or password"),
        ("https://trainer.example.com/#top", "fragment"),
        ("https://trainer.example.com\\@evil.example/", "plain ASCII"),
        ("https://trainer.example.com/a b", "plain ASCII"),
        ("https://tr\u00e4iner.example.com/", "plain ASCII"),
        ("https://trainer.example.com:99999/", "not a URL"),
        ("https://trainer.example.com:0/", "port 0"),
        ("https://trainer%2eexample.com/", "neither a name nor an address"),
        ("https://[::1/", "not a URL"),
        ("https://" + "a" * 3000, "plain ASCII"),
    ],
)
def test_what_is_no_plain_url_is_refused_with_what_is_wrong(url: str, words: str) -> None:
    assert words in refusal(LISTED, url)


def test_a_refusal_of_a_user_does_not_repeat_the_password() -> None:
    assert "secret" not in refusal(LISTED, "https://user:secret@trainer.example.com/")


def test_a_name_is_refused_at_once_when_only_names_are_listed() -> None:
    message = refusal(read_allowed(["trainer.example.com"], loopback=False), "http://evil.example/")
    assert message == "host 'evil.example' is not in hook_allow: trainer.example.com"


def test_nothing_is_allowed_by_an_empty_list() -> None:
    assert "it lists nothing" in refusal(read_allowed([], loopback=False), "http://10.0.0.1/")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]:9/", "http://a.localhost/"]
)
def test_this_machine_is_allowed_while_nobody_else_reaches_the_service(url: str) -> None:
    ALONE.check_url(url)
    refusal(read_allowed([], loopback=False), url)


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.0/8"])
def test_this_machine_is_allowed_when_it_is_listed(entry: str) -> None:
    read_allowed([entry], loopback=False).check_url("http://127.0.0.1:9/")


@pytest.mark.parametrize("allowed", [ALONE, OPEN, LISTED])
def test_a_foreign_name_does_not_lead_to_this_machine(allowed: Allowed) -> None:
    target = parse("http://elsewhere.example.org/")
    with pytest.raises(HookRefused):
        allowed.check_address(target, ip_address("127.0.0.1"))


def test_a_listed_name_may_lead_to_a_private_address_but_not_to_metadata() -> None:
    target = LISTED.check_url("https://trainer.example.com/")
    LISTED.check_address(target, ip_address("192.168.7.7"))
    with pytest.raises(HookRefused, match="metadata"):
        LISTED.check_address(target, ip_address("169.254.169.254"))


def test_a_name_that_is_not_listed_may_lead_into_a_listed_network_alone() -> None:
    target = LISTED.check_url("https://elsewhere.example.org/")
    LISTED.check_address(target, ip_address("10.1.9.9"))
    with pytest.raises(HookRefused, match="not in hook_allow"):
        LISTED.check_address(target, ip_address("10.2.0.1"))


@pytest.mark.parametrize("entry", ["", "http://x/", "10.0.0.0/33", "a b", "*", "*."])
def test_a_list_with_an_entry_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="hook_allow"):
        read_allowed([entry], loopback=False)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_written_as_ipv6_is_never_allowed(address: object) -> None:
    assert why_never(ip_address(f"::ffff:{address}")) is not None


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}/", f"https://{text}"):
        try:
            parse(url)
        except HookRefused:
            continue
