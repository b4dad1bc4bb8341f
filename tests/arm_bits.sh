#!/usr/bin/env bash
# arm_bits.sh FOLDER -- builds print_bits for AArch64 and here, and compares them.
#
# A static program of the layers up to summary needs no library of the other
# architecture, so that nothing but a cross compiler and qemu has to be installed.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
folder=$1
flags=(-std=c11 -O2 -DNDEBUG -D_GNU_SOURCE -ffp-contract=off -Wall -Wextra -Werror -Wno-psabi)
flags+=(-Iinclude -Icore "-I$folder/include")
mkdir -p "$folder/include"

# xxHash is used as a header alone: ours serves the cross compiler as well.
cp "$(printf '#include <xxhash.h>\n' | cc -M -x c - | grep -o '[^ ]*/xxhash.h' | head -1)" "$folder/include/"

build() { # COMPILER PROGRAM ISA=FLAGS...
    local compiler=$1 program=$2 isa file
    local -a objects=()
    shift 2
    for isa in "$@"; do
        for file in core/summary/*_kernel.c; do
            objects+=("$program-$(basename "$file" .c)-${isa%%=*}.o")
            # shellcheck disable=SC2086  # the flags are words
            "$compiler" "${flags[@]}" -O3 -DTT_ISA="${isa%%=*}" ${isa#*=} -c "$file" -o "${objects[-1]}"
        done
    done
    local -a sources
    mapfile -t sources < <(find core/base core/tensor core/summary core/os -name '*.c' ! -path 'core/summary/*_kernel.c' ! -name darwin.c)
    "$compiler" "${flags[@]}" -static "${sources[@]}" tests/core/print_bits.c "${objects[@]}" -lm -o "$program"
}

case $(uname -m) in
    x86_64) build cc "$folder/print_here" base= "avx2=-mavx2 -mf16c" ;;
    *) build cc "$folder/print_here" neon= ;;
esac
build aarch64-linux-gnu-gcc "$folder/print_arm" neon=
python3 tests/same_bits.py "$folder/print_here" "qemu-aarch64 $folder/print_arm"
