/* test_element.c -- one element of every type is the number it stands for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The bits of minus 1.5 (or what the type has instead), by the types' definitions. */
static const struct {
    tt_dtype dtype;
    uint64_t bits;
    double value;
} known[] = {
    { TT_F64, 0xbff8000000000000, -1.5 },
    { TT_F32, 0xbfc00000, -1.5 },
    { TT_F16, 0xbe00, -1.5 },
    { TT_BF16, 0xbfc0, -1.5 },
    { TT_F8_E4M3FN, 0xbc, -1.5 },
    { TT_F8_E5M2, 0xbe, -1.5 },
    { TT_F8_E4M3FNUZ, 0xc4, -1.5 },
    { TT_F8_E5M2FNUZ, 0xc2, -1.5 },
    { TT_I8, 0xfe, -2 },
    { TT_I16, 0xfffe, -2 },
    { TT_I32, 0xfffffffe, -2 },
    { TT_I64, 0xfffffffffffffffe, -2 },
    { TT_U8, 0xfe, 254 },
    { TT_U16, 0xfffe, 65534 },
    { TT_U32, 0xfffffffe, 4294967294.0 },
    { TT_U64, 0xfffffffffffff800, 18446744073709549568.0 },
    { TT_BOOL, 1, 1 },
};

static void every_type_gives_its_number_even_unaligned(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char bytes[9] = { 0 };
        memcpy(bytes + 1, &known[i].bits, 8); /* little-endian, as all we build for */
        assert_true(tt_element_f64(known[i].dtype, bytes + 1) == known[i].value);
    }
}

static void a_complex_type_is_no_number(void **state)
{
    (void)state;
    const double z[2] = { 1, 2 };
    assert_true(isnan(tt_element_f64(TT_C64, z)));
    assert_true(isnan(tt_element_f64(TT_C128, z)));
    assert_true(isnan(tt_element_f64(TT_DTYPE_COUNT_, z)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_gives_its_number_even_unaligned),
        cmocka_unit_test(a_complex_type_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
