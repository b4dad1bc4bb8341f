/* main.c -- the `tensortap` program: finds the command, prints its errors,
 * decides the exit code.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

#include <stdio.h>

int main(void)
{
    printf("tensortap %s\n", tt_version());
    return 0;
}
