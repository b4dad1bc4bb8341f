"""Copy a run into an object store: the Python half of `tensortap upload`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tensortap.cloud import upload
from tensortap.cloud.stores import hide_secrets


def say(text: str) -> None:
    """Print a line on standard error."""
    print(f"tensortap: {text}", file=sys.stderr, flush=True)


def main(options: dict[str, str], words: list[str]) -> None:
    """Copy; *words* are the run and the URL, which may be in the environment instead."""
    run, url = Path(words[0]), words[1] if len(words) > 1 else os.environ[upload.URL]
    follows = "follow" in options
    if not run.is_dir() or not (follows or any(run.glob("rank*.tap"))):
        say(f"there is no run at {run}; name the folder of a run")
        raise SystemExit(3)
    try:
        sent = upload.upload(run, url, follow=follows, say=say)
    except upload.OtherRunError as error:
        say(str(error))
        raise SystemExit(3) from None
    except OSError as error:
        say(f"{error}; what is there already stays, the next upload goes on behind it")
        raise SystemExit(3) from None
    except ImportError as error:
        say(f"{error}; install it for {sys.executable}")
        raise SystemExit(3) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    print(f"{sent} bytes sent to {hide_secrets(upload.folder_url(run, url))}")
