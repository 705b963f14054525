import pytest

from bench_client.wire.endpoint import Endpoint, EndpointError, parse_endpoint


@pytest.mark.parametrize(
    ("url", "expected", "root"),
    [
        ("http://127.0.0.1:8000", Endpoint("127.0.0.1", 8000), "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", Endpoint("127.0.0.1", 8000), "http://127.0.0.1:8000"),
        ("http://host:8000/v1", Endpoint("host", 8000), "http://host:8000"),
        ("http://host:8000/v1/", Endpoint("host", 8000), "http://host:8000"),
        ("https://host/api/v1", Endpoint("host", 443, True, "/api"), "https://host:443/api"),
        ("http://[::1]:30000", Endpoint("::1", 30000), "http://[::1]:30000"),
        ("http://host", Endpoint("host", 80), "http://host:80"),
        (
            "http://[fe80::1%25Eth0]:8000",
            Endpoint("fe80::1%Eth0", 8000),
            "http://[fe80::1%Eth0]:8000",
        ),
        (
            "http://[fe80::1%Eth0]:8000",
            Endpoint("fe80::1%Eth0", 8000),
            "http://[fe80::1%Eth0]:8000",
        ),
        ("http://Münch_en:8000", Endpoint("xn--mnch_en-n2a", 8000), "http://xn--mnch_en-n2a:8000"),
        (
            "http://host:8000/a ü/v1",
            Endpoint("host", 8000, False, "/a%20%C3%BC"),
            "http://host:8000/a%20%C3%BC",
        ),
    ],
)
def test_a_root_with_or_without_v1(url: str, expected: Endpoint, root: str) -> None:
    assert parse_endpoint(url) == expected
    assert parse_endpoint(url).url == root


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "localhost",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:port",
        "http://user:secret@host:8000",
        "http://host/?a=1",
        "http://user:secret@host:port",
        "http://user:secret@host:0",
        "http://host:0",
        "http://a..b:80",
        "http://a b:80",
        "http://" + "a" * 64 + ":80",
        "http://[fe80::1",
        "http://[fe80::g%25eth0]:80",
        "",
    ],
)
def test_what_is_no_root_is_refused_in_one_line_without_the_secret(url: str) -> None:
    with pytest.raises(EndpointError) as caught:
        parse_endpoint(url)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_zone_is_this_machines_own() -> None:
    endpoint = parse_endpoint("http://[fe80::1%25eth0]:8000")
    assert (endpoint.name, endpoint.authority) == ("fe80::1", "[fe80::1]:8000")
