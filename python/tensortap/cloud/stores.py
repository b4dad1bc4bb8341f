"""A folder in an object store: list it, read ranges of its objects, create objects.

fsspec is what users configure; obstore, where it is installed, is faster for `s3://`, `gs://` and
`az://`. Neither is ever imported by a program that trains.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tensortap.files.imports import needed

AT_ONCE = 64  # requests under way
GAP = 1 << 20  # bytes between two ranges that are read as one
MOST = 1_000_000  # objects below one URL
LARGEST = 32 << 20  # bytes of one request
FAST = ("s3", "gs", "az")  # what obstore is used for
LOGIN = re.compile(r"(\w+://)(?:[^/@:\s]*:[^@\s]*|[^/@\s]+)@")  # a key of AWS may hold a slash
SIGNATURE = re.compile(r"([?&][\w-]*(?:sig|signature|token|secret|key|password)=)[^&\s]+", re.I)
URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


class StoreError(OSError):
    """A store did not do what was asked."""


class Object(NamedTuple):
    """An object in a store, by its key below the folder."""

    key: str
    size: int
    version: str  # changes when the object does


class Range(NamedTuple):
    """A part of an object."""

    key: str
    start: int
    end: int


class Store(Protocol):
    """What a folder in a store can do."""

    def objects(self) -> list[Object]:
        """Return all objects below the folder."""

    def get(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range, in one round of requests."""

    def create(self, key: str, content: bytes) -> bool:
        """Create an object; return False if there is one already, which is left as it is."""


def is_url(path: object) -> bool:
    """Return whether a path is somewhere in an object store."""
    return isinstance(path, str) and URL.match(path) is not None


def open_store(url: str) -> Store:
    """Return the folder at a URL."""
    scheme = url.partition("://")[0].lower()
    if scheme in FAST and os.environ.get("TENSORTAP_STORE") != "fsspec":
        try:
            import obstore
        except ImportError:
            pass
        else:
            return ObstoreFolder(obstore, url)
    message = f"{scheme}:// needs fsspec: pip install 'tensortap[cloud]'"
    return FsspecFolder(needed("fsspec", message), url)


def hide_secrets(text: str) -> str:
    """Remove what stands before @ in a URL, signatures in it, and the values of keys."""
    text = LOGIN.sub(r"\1", text)
    text = SIGNATURE.sub(r"\1…", text)
    secrets = [value for key, value in os.environ.items() if _is_secret(key) and len(value) >= 8]
    for secret in secrets:
        text = text.replace(secret, "…")
    return text


def public_name(path: str) -> str:
    """Return a path as it may be shown: of a URL, without the secrets in it."""
    return hide_secrets(path) if is_url(path) else path


def _is_secret(key: str) -> bool:
    return any(
        word in key.upper() for word in ("SECRET", "TOKEN", "PASSWORD", "ACCESS_KEY", "_KEY")
    )


def _said(url: str, error: BaseException) -> StoreError:
    """Return an error of a library in one line, without secrets."""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    login = LOGIN.match(url)
    for word in re.split(r"[:/@]+", login[0]) if login else ():
        text = text.replace(word, "…") if len(word) > 3 else text  # a library quotes parts of it
    return StoreError(f"{hide_secrets(url)}: {hide_secrets(text)}")


class FsspecFolder:
    """A folder that fsspec opens."""

    def __init__(self, fsspec: Any, url: str) -> None:
        self.url = url
        try:
            self.fs, path = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise ModuleNotFoundError(str(error)) from None
        except ValueError as error:  # no other attempt will mend it
            raise ModuleNotFoundError(str(_said(url, error))) from None
        except Exception as error:
            raise _said(url, error) from None
        self.path = path.rstrip("/")

    def objects(self) -> list[Object]:
        """Return all objects below the folder."""
        try:
            self.fs.invalidate_cache()
            found = self.fs.find(self.path, detail=True)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise _said(self.url, error) from None
        objects = []
        for name, about in found.items():
            version = next((about[key] for key in ("ETag", "etag", "md5") if about.get(key)), "")
            when = about.get("LastModified") or about.get("mtime") or about.get("created") or ""
            key = name.removeprefix(self.path).lstrip("/") if name != self.path else ""
            objects.append(Object(key, int(about.get("size") or 0), str(version or when)))
        return objects

    def get(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range; exceptions stand among them in what fsspec returns."""
        names = [f"{self.path}/{one.key}" if one.key else self.path for one in ranges]
        starts, ends = [one.start for one in ranges], [one.end for one in ranges]
        options = {"batch_size": AT_ONCE} if self.fs.async_impl else {}
        try:
            found = self.fs.cat_ranges(names, starts, ends, on_error="return", **options)
        except Exception as error:
            raise _said(self.url, error) from None
        for one in found:
            if isinstance(one, BaseException):
                raise _said(self.url, one) from None
        return [bytes(one) for one in found]

    def create(self, key: str, content: bytes) -> bool:
        """Create an object; return False if there is one already."""
        try:
            if not self.fs.async_impl:
                self.fs.makedirs(os.path.dirname(f"{self.path}/{key}"), exist_ok=True)
            if "file" in self.fs.protocol:
                _create_file(f"{self.path}/{key}", content)
            else:
                self.fs.pipe_file(f"{self.path}/{key}", content, mode="create")
        except FileExistsError:
            return False
        except Exception as error:
            if _is_there_already(error):
                return False
            raise _said(self.url, error) from None
        return True


def _create_file(path: str, content: bytes) -> None:
    """Create a file that nobody ever sees half written; raise FileExistsError if it is there."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), suffix=".part") as part:
        part.write(content)
        part.flush()
        os.link(part.name, path)


def _is_there_already(error: BaseException) -> bool:
    """Return whether a conditional request was refused; s3fs makes an OSError of the answer 412."""
    answer = getattr(error.__cause__, "response", None) or getattr(error, "response", None) or {}
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    return code in ("PreconditionFailed", "412") or "PreconditionFailed" in str(error)


class ObstoreFolder:
    """A folder that obstore opens."""

    def __init__(self, obstore: Any, url: str) -> None:
        self.url, self.obstore = url, obstore
        options: dict[str, Any] = {}
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        if url.lower().startswith("s3://") and endpoint:
            options = {"endpoint": endpoint, "virtual_hosted_style_request": False}
            if endpoint.startswith("http://"):
                options["client_options"] = {"allow_http": True}
        try:
            self.store = obstore.store.from_url(url, **options)
        except Exception as error:
            raise _said(url, error) from None

    def objects(self) -> list[Object]:
        """Return all objects below the folder."""
        objects = []
        try:
            for page in self.obstore.list(self.store, chunk_size=1000):
                for about in page:
                    version = about.get("e_tag") or about.get("last_modified") or ""
                    objects.append(Object(about["path"], about["size"], str(version)))
                if len(objects) > MOST:
                    break  # whoever asks refuses them
        except Exception as error:
            raise _said(self.url, error) from None
        return objects

    def get(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range."""
        from concurrent.futures import ThreadPoolExecutor

        def one(part: Range) -> bytes:
            return bytes(
                self.obstore.get_range(self.store, part.key, start=part.start, end=part.end)
            )

        try:
            with ThreadPoolExecutor(min(AT_ONCE, max(len(ranges), 1))) as pool:
                return list(pool.map(one, ranges))
        except Exception as error:
            raise _said(self.url, error) from None

    def create(self, key: str, content: bytes) -> bool:
        """Create an object; return False if there is one already."""
        try:
            self.obstore.put(self.store, key, content, mode="create")
        except self.obstore.exceptions.AlreadyExistsError:
            return False
        except Exception as error:
            raise _said(self.url, error) from None
        return True


def read_ranges(store: Store, wanted: Sequence[Range]) -> list[tuple[Range, bytes]]:
    """Read ranges in one round: near ones as one, long ones in pieces; return what was read."""
    joined: list[Range] = []
    for one in sorted(part for part in wanted if part.end > part.start):
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.key == one.key
            and one.start <= last.end + GAP
            and max(one.end, last.end) - last.start <= LARGEST
        ):
            joined[-1] = Range(last.key, last.start, max(last.end, one.end))
            continue
        start = one.start
        while one.end - start > LARGEST:
            joined.append(Range(one.key, start, start + LARGEST))
            start += LARGEST
        joined.append(Range(one.key, start, one.end))
    contents = store.get(joined) if joined else []
    for part, content in zip(joined, contents, strict=True):
        if len(content) != part.end - part.start:
            raise StoreError(
                f"{part.key}: {len(content)} bytes came of the {part.end - part.start} asked for"
            )
    return list(zip(joined, contents, strict=True))
