"""Show that layers.py catches each violation it is there for.

    python3 tests/test_layers.py

Plants one violation at a time in a small tree.  Standard library alone.
SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: PT009 -- unittest, because this runs before anything is installed
from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import layers

SOUND = {
    "include/tensortap.h": "#include <stdint.h>\n",
    "core/base/buf.h": '#include "tensortap.h"\n',
    "core/summary/kernels.c": "#include <cpuid.h>\n",
    "core/tensor/walk.h": '#include "base/buf.h"\n',
    "core/summary/digest.c": '#include "tensor/walk.h"\n#include <xxhash.h>\n',
    "core/summary/stats_kernel.c": "#include <immintrin.h>\n",
    "core/store/block.h": '#include "summary/digest.h"\n#include <zstd.h>\n',
    "core/summary/digest.h": '#include "tensortap.h"\n',
    "core/format/npy.c": '#include "tensor/walk.h"\n#include <libdeflate.h>\n',
    "cli/commands/show.c": '#include "command.h"\n#include "output/screen.h"\n',
    "cli/output/screen.h": '#include "tensortap.h"\n',
    "cli/command.h": '#include "output/screen.h"\n',
    "python/ext/extension.c": '#include "flow/chart.h"\n#include "base/compat.h"\n',
    "python/ext/base/compat.h": "#include <Python.h>\n",
    "python/ext/lines/source.h": (
        '#include "base/compat.h"\ntypedef struct lines_source lines_source;\n'
        "lines_source *lines_source_create(void);\n"
    ),
    "python/ext/flow/chart.h": '#include "lines/source.h"\nvoid flow_draw(int);\n',
    "python/ext/track/log.h": '#include "base/compat.h"\n',
    "python/tensortap/__init__.py": "from tensortap import flow\n",
    "python/tensortap/runs/run.py": "from tensortap import _core\n_core._private()\n",
    "python/tensortap/flow/render.py": "from tensortap.runs.run import Run\n",
    "python/tensortap/spy/saver.py": "import torch\ntorch.public()\n",
    "python/tensortap/private/tensors.py": "import torch\ntorch._private()\n",
    "python/ext/lines/path.c": '#include "base/compat.h"\nchar *name = "_modules";\n',
    "tests/python/__init__.py": "",
}


class Layers(unittest.TestCase):
    """Each test is one planted violation, and what is said about it."""

    def violations(self, **planted: str) -> list[str]:
        """Return what is said about the sound tree with *planted* added to it."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for path, text in {**SOUND, **planted}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return [found for check in layers.CHECKS for found in check(root)]

    def assert_caught(self, path: str, text: str, said: str) -> None:
        """Assert that the violation is found, once, at its place."""
        wrong = self.violations(**{path: text})
        self.assertEqual(len(wrong), 1, wrong)
        self.assertTrue(wrong[0].startswith(path), wrong)
        self.assertIn(said, wrong[0])

    def test_a_sound_tree_is_left_alone(self) -> None:
        self.assertEqual(self.violations(), [])

    def test_a_lower_layer_may_not_use_a_higher_one(self) -> None:
        self.assert_caught(
            "core/base/new.c", '#include "tensor/walk.h"\n', "base may not use tensor"
        )
        self.assert_caught(
            "core/tensor/new.c", '#include "summary/digest.h"\n', "tensor may not use summary"
        )
        self.assert_caught(
            "core/site/new.c", '#include "summary/digest.h"\n', "site may not use summary"
        )
        self.assert_caught(
            "core/site/new.c", '#include "tensor/walk.h"\n', "site may not use tensor"
        )
        self.assert_caught(
            "core/record/new.c", '# include  "format/npy.h"\n', "not a header of core"
        )

    def test_calls_through_the_public_headers_are_seen(self) -> None:
        planted = {
            "core/health/rules.c": "tt_status tt_health(tt_run *run)\n{\n    return 0;\n}\n",
            "core/report/new.c": "void ask(tt_run *run)\n{\n    tt_health(run); /* fine */\n}\n",
        }
        self.assertEqual(
            self.violations(**planted),
            ["core/report/new.c:3: tt_health: report may not use health"],
        )

    def test_names_of_tensortap_itself_are_seen_where_they_come_from(self) -> None:
        planted = {
            "python/tensortap/__init__.py": "from tensortap.runs.run import Run\n",
            "python/tensortap/files/new.py": "import tensortap\ntensortap.Run()\n",
        }
        said = ["python/tensortap/files/new.py:2: files may not use runs"]
        self.assertEqual(self.violations(**planted), said)
        planted["python/tensortap/files/new.py"] = "from tensortap import Run\n"
        self.assertEqual(self.violations(**planted), [said[0].replace(":2:", ":1:")])

    def test_the_program_and_the_extension_know_the_public_header_alone(self) -> None:
        self.assert_caught("cli/new.c", '#include "base/buf.h"\n', "not a header of cli")
        self.assert_caught("cli/new.c", '#include "../core/base/buf.h"\n', "not a header of cli")
        self.assert_caught(
            "python/ext/flow/new.c", '#include "tensor/walk.h"\n', "not a header of python/ext"
        )

    def test_the_output_of_the_program_may_not_use_what_prints_it(self) -> None:
        self.assert_caught("cli/output/new.c", '#include "runs/list.h"\n', "not a header of cli")
        wrong = self.violations(
            **{"cli/output/new.c": '#include "runs/list.h"\n', "cli/runs/list.h": ""}
        )
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn("output may not use runs", wrong[0])

    def test_a_front_end_of_the_extension_may_not_use_another(self) -> None:
        self.assert_caught(
            "python/ext/flow/new.c", '#include "track/log.h"\n', "flow may not use track"
        )

    def test_a_source_of_the_extension_may_not_use_its_consumers(self) -> None:
        self.assert_caught(
            "python/ext/lines/new.c", '#include "flow/chart.h"\n', "lines may not use flow"
        )

    def test_the_extension_itself_may_use_every_folder(self) -> None:
        text = '#include "flow/chart.h"\n#include "track/log.h"\n'
        self.assertEqual(self.violations(**{"python/ext/extension.c": text}), [])

    def test_a_file_of_the_extension_lies_in_a_known_folder(self) -> None:
        self.assert_caught("python/ext/new.c", "", "no folder of this name")
        self.assert_caught("python/ext/extra/new.c", "", "no folder of this name")

    def test_headers_of_the_extension_begin_names_with_their_folder(self) -> None:
        for text in (
            "int draw(int);\n",
            "static inline bool is_drawn(int);\n",
            "PyObject *draw(void);\n",
            "typedef struct chart {\n} chart;\n",
            "typedef enum kind { A } kind;\n",
            "extern const int table[];\n",
            "BINDING_FUNCTION(core_draw);\n",
        ):
            self.assert_caught("python/ext/flow/new.h", text, "does not begin with flow_")

    def test_a_package_may_not_use_one_above_or_beside_it(self) -> None:
        for text in (
            "from tensortap.flow.render import draw\n",
            "from tensortap.flow import render\n",
            "from tensortap import _core, flow\n",
            "def f():\n    import tensortap.flow\n",
        ):
            self.assert_caught("python/tensortap/spy/new.py", text, "spy may not use flow")
        self.assert_caught(
            "python/tensortap/runs/new.py", "from tensortap.spy import x\n", "runs may not use spy"
        )

    def test_a_python_file_lies_in_a_known_package(self) -> None:
        self.assert_caught("python/tensortap/new.py", "", "in no package")
        self.assert_caught("python/tensortap/extra/new.py", "", "no package of this name")

    def test_private_names_of_another_module_are_not_reached_for(self) -> None:
        for text in (
            "from tensortap.flow.render import _draw\n",
            "from tensortap.flow import render\nrender._draw()\n",
        ):
            self.assert_caught("python/tensortap/flow/new.py", text, "is private to another module")

    def test_private_names_of_torch_stay_in_their_quarantine(self) -> None:
        for text in (
            "import torch\ntorch._private()\n",
            "import torch._dynamo\n",
            "from torch._dynamo import config\n",
            "from torch.utils.data.dataloader import _BaseDataLoaderIter\n",
            "def f(x):\n    return x._local_tensor\n",
            "def f(x):\n    return getattr(x, '_local_tensor', x)\n",
            "import sys\nsys.modules['torch._dynamo']\n",
        ):
            self.assert_caught("python/tensortap/spy/new.py", text, "is private to torch")
        self.assert_caught(
            "python/ext/track/new.c", 'char *name = "torch._dynamo";\n', "is private to torch"
        )

    def test_private_members_of_another_package_are_not_used(self) -> None:
        run = "class Run:\n    def f(self):\n        self._reader = 1\n"
        use = "def f(run):\n    return run._reader\n"
        planted = {"python/tensortap/runs/new.py": run, "python/tensortap/spy/new.py": use}
        said = self.violations(**planted)
        self.assertEqual(len(said), 1, said)
        self.assertIn("spy/new.py:2: run._reader is private to another module", said[0])
        del planted["python/tensortap/spy/new.py"]
        planted["python/tensortap/private/new.py"] = use.replace("run._reader", "run._modules")
        self.assertEqual(self.violations(**planted), [])
        inside = {"python/tensortap/runs/new.py": run, "python/tensortap/runs/other.py": use}
        self.assertEqual(self.violations(**inside), [])

    def test_a_folder_under_python_holds_thirty_files_at_most(self) -> None:
        many = {f"python/ext/calls/new{i}.c": "" for i in range(31)}
        self.assertEqual(self.violations(**many), ["python/ext/calls: 31 files; 30 is the most"])

    def test_runs_at_the_root_are_not_sources_but_the_package_is_checked(self) -> None:
        self.assertEqual(self.violations(**{"runs/utils.py": ""}), [])
        self.assert_caught("python/tensortap/runs/utils.py", "", "'utils'")

    def test_a_header_of_the_core_is_named_with_its_folder(self) -> None:
        self.assert_caught("core/base/new.c", '#include "buf.h"\n', "not a header of core")
        self.assert_caught(
            "core/base/new.c", "#define H <zstd.h>\n#include H\n", "name the header itself"
        )

    def test_a_new_folder_of_the_core_needs_a_rule(self) -> None:
        self.assert_caught("core/extra/new.c", "", "no folder of this name")

    def test_third_party_headers_stay_in_their_folders(self) -> None:
        for header in ("zstd.h", "zstd_errors.h", "libdeflate.h", "Python.h"):
            self.assert_caught("core/summary/new.c", f"#include <{header}>\n", header)
        self.assert_caught("core/tensor/new.c", "#include <xxhash.h>\n", "xxhash.h")
        self.assert_caught("cli/new.c", '#include "zstd.h"\n', "zstd.h")
        self.assert_caught(
            "core/base/new.c", "#include <internal/pycore_frame.h>\n", "pycore_frame.h"
        )

    def test_intrinsics_stay_in_kernels(self) -> None:
        for header in ("immintrin.h", "emmintrin.h", "x86intrin.h", "arm_neon.h"):
            self.assert_caught("core/summary/new.c", f"#include <{header}>\n", header)
        self.assert_caught("core/store/new_kernel.c", "#include <immintrin.h>\n", "immintrin.h")
        self.assert_caught("core/base/new.c", "#include <cpuid.h>\n", "cpuid.h")

    def test_vague_names_are_refused(self) -> None:
        self.assert_caught("core/base/utils.c", "", "'utils'")
        self.assert_caught("python/tensortap/flow/common.py", "", "'common'")
        self.assert_caught("tests/python/test_misc.py", "", "'misc'")


class Picture(unittest.TestCase):
    """The picture of the folders in docs/ARCHITECTURE.md."""

    def test_the_picture_shows_the_includes_and_imports_of_today(self) -> None:
        script = Path(__file__).resolve().parent.parent / "docs" / "make_rooms.py"
        done = subprocess.run(
            [sys.executable, str(script), "--check"], capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""))


class Symbols(unittest.TestCase):
    """What nm shows of a compiled file."""

    def violations(self, source: str, name: str = "base_new.c") -> list[str]:
        """Compile *source*, put it into an archive and return what is said about it."""
        with tempfile.TemporaryDirectory() as folder:
            object_file = Path(folder) / f"{name}.o"
            compile_it = ["cc", "-fPIC", "-x", "c", "-c", "-o", str(object_file), "-"]
            subprocess.run(compile_it, check=True, input=source, text=True)
            library = Path(folder) / "libnew.a"
            subprocess.run(["ar", "rc", str(library), str(object_file)], check=True)
            nm = ["nm", "-f", "sysv", str(library)]
            listing = subprocess.run(nm, check=True, capture_output=True, text=True).stdout
            return list(layers.check_symbols(listing))

    def test_constants_are_left_alone(self) -> None:
        text = (
            'const char *const names[] = { "a", "b" }; const int n = 3; int f(void) { return n; }'
        )
        self.assertEqual(self.violations(text), [])

    def test_mutable_globals_are_found(self) -> None:
        for source in (
            "int n;",
            "int n = 3;",
            "static int n; int *f(void) { return &n; }",
            "_Thread_local int n;",
        ):
            wrong = self.violations(source)
            self.assertEqual(len(wrong), 1, (source, wrong))
            self.assertIn("base/new.c: n is a mutable global", wrong[0])

    def test_statics_of_functions_are_found(self) -> None:
        self.assertIn(
            "base/new.c: n is", self.violations("int f(void) { static int n; return n++; }")[0]
        )

    def test_the_kernel_table_is_allowed_in_its_file_alone(self) -> None:
        source = "static int chosen; int *f(void) { return &chosen; }"
        self.assertEqual(self.violations(source, "summary_kernels.c"), [])
        self.assertEqual(len(self.violations(source, "summary_stats.c")), 1)

    def test_python_symbols_are_found(self) -> None:
        wrong = self.violations("int Py_IncRef(void *); int f(void) { return Py_IncRef(0); }")
        self.assertEqual(wrong, ["base/new.c: uses Py_IncRef; only python/ext may know Python"])


if __name__ == "__main__":
    unittest.main()
