/* SPDX-License-Identifier: Apache-2.0 */
/* The document as a table; see matrix.h. */
#include "matrix.h"

#include <math.h>
#include <string.h>

#include "tools/shared/doubles.h"
#include "tools/shared/member.h"
#include "tools/shared/memory.h"

size_t matrix_host(const struct matrix *m, const char *name)
{
	size_t i = 0;

	while (i < m->hosts && strcmp(m->names[i], name) != 0)
		i++;
	return i;
}

static int read_names(const json_t *hosts, struct matrix *m, const char **why)
{
	size_t count = json_array_size(hosts);

	if (!count || count > HOSTS_MAX) {
		*why = count ? "it has too many hosts" : "it has no list of hosts";
		return -1;
	}
	m->names = memory_get(count * sizeof(*m->names));
	m->cells = memory_get(count * count * sizeof(*m->cells));
	for (size_t i = 0; i < count; i++) {
		const char *name = member_text(json_array_get(hosts, i), "name");

		if (!host_name_is_good(name) || matrix_host(m, name) < m->hosts) {
			*why = "a host has no name, or two have the same";
			return -1;
		}
		m->names[m->hosts++] = name;
	}
	return 0;
}

static double number(const json_t *list, size_t i)
{
	double value = json_number_value(json_array_get(list, i));

	return isfinite(value) && value > 0 ? value : 0;
}

static int read_link(const json_t *link, struct matrix *m)
{
	size_t a = matrix_host(m, member_text(link, "a")),
	       b = matrix_host(m, member_text(link, "b"));
	double us = member_real(link, "us"), least = member_real(link, "us_least");
	const size_t ends[] = { a, b };

	if (a == m->hosts || b == m->hosts || a == b || matrix_at(m, a, b)->link)
		return -1;
	for (size_t way = 0; way < 2; way++) {
		m->cells[ends[way] * m->hosts + ends[!way]] = (struct cell){
			.link = link,
			.backwards = way,
			.is_ok = !strcmp(member_text(link, "state"), "ok"),
			.path = member_text(link, "path"),
			.us = us > 0 ? us : 0,
			.us_least = least > 0 ? least : 0,
			.mb_s = number(json_object_get(link, "mb_s"), way),
			.lost = number(json_object_get(link, "lost"), way),
		};
	}
	m->links++;
	return 0;
}

int matrix_read(const json_t *doc, struct matrix *m, const char **why)
{
	const json_t *link;
	size_t i;

	*m = (struct matrix){ 0 };
	*why = "it has another format";
	if (member_int(doc, "format", 0, INT32_MAX, 0) != MATRIX_FORMAT ||
	    read_names(json_object_get(doc, "hosts"), m, why))
		return -1;
	json_array_foreach (json_object_get(doc, "links"), i, link) {
		if (read_link(link, m)) {
			*why = "a pair has unknown hosts, or is there twice";
			return -1;
		}
	}
	return 0;
}

double cell_figure(const struct cell *cell, enum figure figure)
{
	switch (figure) {
	case FIGURE_PATH:
		return 0;
	case FIGURE_US:
		return cell->us;
	case FIGURE_US_LEAST:
		return cell->us_least;
	default:
		return cell->mb_s;
	}
}

struct spread matrix_spread(const struct matrix *m, enum figure figure)
{
	double *values = memory_get(m->hosts * m->hosts * sizeof(*values));
	struct spread s = { 0 };

	for (size_t i = 0; i < m->hosts * m->hosts; i++) {
		double value = cell_figure(&m->cells[i], figure);

		if (value > 0)
			values[s.count++] = value;
	}
	if (s.count) {
		s.median = doubles_median(values, s.count); /* sorts */
		s.least = values[0];
		s.most = values[s.count - 1];
	}
	return s;
}
