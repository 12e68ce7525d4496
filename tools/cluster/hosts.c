/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts tell of themselves, compared: a value that most have, and who differs. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "judge.h"
#include "launcher.h"
#include "tools/pair/finding.h"
#include "tools/pair/verdict.h"
#include "tools/pair/wire.h"

#define VALUE_MAX 200 /* bytes of a value that are told */
#define NAMED     6   /* hosts that are named for a value */
#define VALUES    4   /* that are told */

/* One text for each host, all of the same kind. */
struct texts {
	const json_t *hosts;
	const char *of[HOSTS_MAX]; /* NULL = this host has told nothing */
	size_t count;
};

static const char *name_of(const struct texts *t, size_t host)
{
	return pair_text(json_array_get(t->hosts, host), "name");
}

static size_t count_like(const struct texts *t, const char *text)
{
	size_t count = 0;

	for (size_t i = 0; i < t->count; i++)
		count += t->of[i] && !strcmp(t->of[i], text);
	return count;
}

/* The text of most hosts; the first of several. NULL: no host has any. */
static const char *most_common(const struct texts *t)
{
	const char *common = NULL;
	size_t most = 0;

	for (size_t i = 0; i < t->count; i++) {
		size_t count = t->of[i] ? count_like(t, t->of[i]) : 0;

		if (count > most) {
			most = count;
			common = t->of[i];
		}
	}
	return common;
}

static bool is_first(const struct texts *t, size_t host)
{
	for (size_t i = 0; i < host; i++) {
		if (t->of[i] && !strcmp(t->of[i], t->of[host]))
			return false;
	}
	return true;
}

static size_t append(char *text, size_t room, size_t at, const char *more)
{
	return at + (size_t)snprintf(text + at, room - at, "%.*s", (int)(room - at - 1), more);
}

/* "'x' on n1, n2 and 3 more" */
static size_t tell_value(const struct texts *t, const char *value, char *text, size_t room,
			 size_t at)
{
	size_t named = 0, left = count_like(t, value);
	char part[VALUE_MAX + 40];

	snprintf(part, sizeof(part), "%.*s on ", VALUE_MAX, *value ? value : "none");
	at = append(text, room, at, part);
	for (size_t i = 0; i < t->count && named < NAMED; i++) {
		if (!t->of[i] || strcmp(t->of[i], value) != 0)
			continue;
		snprintf(part, sizeof(part), "%s%.64s", named ? ", " : "", name_of(t, i));
		at = append(text, room, at, part);
		named++;
		left--;
	}
	if (left) {
		snprintf(part, sizeof(part), " and %zu more", left);
		at = append(text, room, at, part);
	}
	return at;
}

/* Tells who has what, those first that differ from most. Returns those hosts; NULL: all are alike. */
static json_t *tell_difference(const struct texts *t, char *text, size_t room)
{
	const char *common = most_common(t);
	json_t *odd = json_array();
	size_t at = 0, told = 0;

	for (size_t i = 0; common && i < t->count; i++) {
		if (!t->of[i] || !strcmp(t->of[i], common))
			continue;
		json_array_append_new(odd, json_string(name_of(t, i)));
		if (!is_first(t, i) || told++ >= VALUES)
			continue;
		at = tell_value(t, t->of[i], text, room, at);
		at = append(text, room, at, "; ");
	}
	if (!json_array_size(odd)) {
		json_decref(odd);
		return NULL;
	}
	tell_value(t, common, text, room, at);
	return odd;
}

static void compare(json_t *findings, const struct texts *t, const char *kind, const char *what,
		    const char *level, const char *means, const char *todo)
{
	char text[FINDING_MAX - 200];
	json_t *odd = tell_difference(t, text, sizeof(text));

	if (!odd)
		return;
	pair_finding_add(findings, kind, level, means, todo, "%.150s: %s", what, text);
	finding_concerns(findings, odd);
}

/* --- versions and settings --- */

static struct texts texts_of(const json_t *hosts, const char *part, const char *key,
			     const char *missing)
{
	struct texts t = { .hosts = hosts };
	const json_t *host;
	size_t i;

	json_array_foreach(hosts, i, host)
	{
		const json_t *facts = json_object_get(host, "facts");
		const json_t *from = !strcmp(part, "facts") ? facts
				     : !strcmp(part, "env") ? json_object_get(facts, "env")
							    : json_object_get(host, part);
		const json_t *value = json_object_get(from, key);

		if (i == HOSTS_MAX)
			break;
		t.count = i + 1;
		if (json_is_object(facts))
			t.of[i] = json_is_string(value) ? json_string_value(value) : missing;
	}
	return t;
}

static void versions(json_t *findings, const json_t *hosts)
{
	for (size_t i = 0; i < verdict_version_count; i++) {
		const struct verdict_version *row = &verdict_versions[i];
		struct texts t = texts_of(hosts, "facts", row->key, "");

		compare(findings, &t, row->kind, row->what, row->level, row->means, row->todo);
	}
}

static void settings(json_t *findings, const json_t *hosts)
{
	json_t *all = json_object(), *value;
	const json_t *host;
	const char *name;
	size_t i;

	json_array_foreach(hosts, i, host)
	{
		json_t *env = json_object_get(json_object_get(host, "facts"), "env");

		if (json_is_object(env))
			json_object_update(all, env);
	}
	json_object_foreach(all, name, value)
	{
		struct texts t = texts_of(hosts, "env", name, "not set");
		bool local = verdict_is_local_setting(name);

		compare(findings, &t, "setting", name, local ? "note" : "warning",
			local ? "" : VERDICT_SETTING_MEANS,
			local ? "" : "Set it to the same value on all hosts, or unset it "
				     "everywhere.");
	}
	json_decref(all);
}

/* --- devices --- */

/* "2 x IB 200000 Mb/s, 1 x TCP 10000 Mb/s": kinds in the order of devices. */
static void describe_devices(const json_t *facts, char *text, size_t room)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev, *other;
	size_t i, j, at = 0;

	*text = '\0';
	json_array_foreach(devices, i, dev)
	{
		const char *transport = pair_text(dev, "transport");
		long long speed = pair_int(dev, "speed_mbps", 0, INT32_MAX, 0);
		size_t alike = 0, before = 0;
		char part[80];

		json_array_foreach(devices, j, other)
		{
			if (strcmp(pair_text(other, "transport"), transport) != 0 ||
			    pair_int(other, "speed_mbps", 0, INT32_MAX, 0) != speed)
				continue;
			alike++;
			before += j < i;
		}
		if (before)
			continue;
		snprintf(part, sizeof(part), "%s%zu x %.8s %lld Mb/s", at ? ", " : "", alike,
			 transport, speed);
		at = append(text, room, at, part);
	}
}

static void devices(json_t *findings, const json_t *hosts)
{
	static char sets[HOSTS_MAX][VALUE_MAX];
	struct texts t = { .hosts = hosts };
	const json_t *host;
	size_t i;

	json_array_foreach(hosts, i, host)
	{
		const json_t *facts = json_object_get(host, "facts");

		if (i == HOSTS_MAX)
			break;
		t.count = i + 1;
		if (!json_is_object(facts))
			continue;
		describe_devices(facts, sets[i], sizeof(sets[i]));
		t.of[i] = sets[i];
		if (!verdict_is_cut_off(facts, NULL))
			continue;
		pair_finding_add(
			findings, "device", "error", "NCCL cannot reach another host from it.",
			"Run `anynet devices` on that host: it prints the devices and the "
			"reasons; check NCCL_SOCKET_IFNAME there.",
			"%.64s: %s", name_of(&t, i),
			*sets[i] ? "the plugin gets only the loopback interface"
				 : "no usable device");
		finding_concerns(findings, json_pack("[s]", name_of(&t, i)));
	}
	compare(findings, &t, "device", "devices", "warning",
		"NCCL's rings and trees are as fast as the slowest host.",
		"Run `anynet devices` on the host that differs.");
}

/* --- launchers --- */

static void launcher_differs(json_t *findings, const json_t *hosts,
			     const struct launcher_variable *v)
{
	struct texts t = texts_of(hosts, "launcher", v->name, "not set");

	if (v->kind == LAUNCHER_MOST)
		compare(findings, &t, "launcher", v->name, "warning",
			"Hosts with different numbers of ranks load the network unevenly.",
			"Start the same number of processes on each host, unless their numbers "
			"of GPUs differ.");
	else
		compare(findings, &t, "launcher", v->name, "error",
			"The ranks on these hosts belong to different jobs, or wait for ranks "
			"that never start.",
			"Let one launcher set it on all hosts, or set the same value everywhere.");
}

static void launcher_repeats(json_t *findings, const json_t *hosts,
			     const struct launcher_variable *v)
{
	struct texts t = texts_of(hosts, "launcher", v->name, NULL);

	for (size_t i = 0; i < t.count; i++) {
		char text[FINDING_MAX - 200];

		if (!t.of[i] || !is_first(&t, i) || count_like(&t, t.of[i]) < 2)
			continue;
		tell_value(&t, t.of[i], text, sizeof(text), 0);
		pair_finding_add(findings, "launcher", "error",
				 "Two processes have the same rank, and NCCL waits for the "
				 "missing one.",
				 "Give each host its own number, or let the launcher set it.",
				 "%s: %s", v->name, text);
		finding_concerns(findings, json_array());
	}
}

void judge_hosts(json_t *findings, const json_t *hosts)
{
	versions(findings, hosts);
	settings(findings, hosts);
	devices(findings, hosts);
	for (size_t i = 0; i < launcher_variable_count; i++) {
		const struct launcher_variable *v = &launcher_variables[i];

		if (v->kind == LAUNCHER_OWN)
			launcher_repeats(findings, hosts, v);
		else
			launcher_differs(findings, hosts, v);
	}
	judge_layout(findings, hosts);
}
