/* copy.c -- the nodes of a chart at one moment.
 *
 * Exists because drawing takes a while and is done in several steps, between
 * which other threads of the program go on to change tensors: a picture must be
 * of one moment, and what comes later must not be forgotten with it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "flow/chart.h"

#include <string.h>

static int node_copy(const flow_node *node, flow_node *out)
{
    uint64_t *from = PyMem_Calloc(node->from_count + 1, sizeof *from);
    if (from == NULL)
        return -1;
    *out = *node;
    out->from = from;
    if (node->from_count > 0)
        memcpy(from, node->from, node->from_count * sizeof *from);
    out->name = Py_NewRef(node->name);
    out->code = Py_NewRef(node->code);
    out->owner = Py_XNewRef(node->owner);
    flow_value_share(&node->value, &out->value);
    return 0;
}

int flow_chart_copy(const flow_chart *chart, flow_chart *out)
{
    flow_chart copy = { .cap = flow_chart_count(chart) + 1, .max = chart->max, .moment = chart->moment };
    copy.oldest = copy.next = chart->oldest;
    copy.ring = PyMem_Calloc(copy.cap, sizeof *copy.ring);
    if (copy.ring == NULL)
        return -1;
    for (uint64_t id = chart->oldest; id < chart->next; id++) {
        if (node_copy(flow_chart_at(chart, id), flow_chart_at(&copy, id)) < 0) {
            flow_chart_free(&copy);
            return -1;
        }
        copy.orphans += flow_chart_at(&copy, id)->wait_count > 0;
        copy.next++;
    }
    *out = copy;
    return 0;
}

void flow_chart_forget(flow_chart *chart, const flow_chart *copy)
{
    if (copy->next >= chart->next) { /* nothing came: numbers begin at 1 again */
        flow_chart_clear(chart);
        return;
    }
    while (chart->oldest < copy->next)
        flow_chart_drop(chart);
}
