/* SPDX-License-Identifier: Apache-2.0 */
/* Reports which plugin NCCL loads in this environment, whether it is used, and known problems on the way. */
#include "check.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "releases.h"

#define OLDEST_SHOWN 21200 /* older releases are reported only if installed */
#define OLDEST_USUAL 21300 /* oldest release that matters if no NCCL is found */

/* Consecutive ranges with the same outcome. */
struct group {
	const struct release_range *first, *last;
	struct plugin_outcome outcome; /* of the newest range */
	int api_oldest;
	bool counts; /* a release of the group is on this host, or no NCCL is found */
};

static bool counts(const struct check *check, const struct release_range *range)
{
	return copies_in_range(&check->copies, 1, INT_MAX)
		       ? copies_in_range(&check->copies, range->from, range->to)
		       : range->from >= OLDEST_USUAL;
}

/* "2.13 – 2.18". */
static char *group_text(const struct group *group)
{
	int from = group->first->from / 100 % 100;
	int to = (group->last->to == INT_MAX ? RELEASE_NEWEST : group->last->to) / 100 % 100;

	return from == to ? text_format("2.%d", from) : text_format("2.%d – 2.%d", from, to);
}

static char *api_text(const struct group *group)
{
	int newest = group->outcome.api;

	return group->api_oldest == newest ? text_format("v%d", newest)
					   : text_format("v%d – v%d", group->api_oldest, newest);
}

static void report_anynet(struct check *check, const struct group *group, const char *releases)
{
	found(check, CHECK_OK, "plugin-anynet", "NCCL %s load %s: anynet %s, net API %s", releases,
	      group->outcome.file, group->outcome.anynet_version, api_text(group));
}

/* Returns the first libnccl-net.so on the library search path that is anynet; NULL = none. */
static char *find_anynet(const struct check *check)
{
	struct text_list directories = loader_directories(&check->loader);

	for (size_t i = 0; i < directories.count; i++) {
		char *path = text_format("%s/libnccl-net.so", directories.items[i]);
		struct library library;

		if (!host_is_file(&check->host, path))
			continue;
		library_read(&check->host, path, &library);
		if (library.anynet)
			return path;
	}
	return NULL;
}

static void report_other(struct check *check, const struct group *group, const char *releases)
{
	const char *asked = host_env("NCCL_NET_PLUGIN");
	const char *anynet = find_anynet(check);
	bool wanted = anynet || (asked && strstr(asked, "anynet"));

	found(check, wanted && group->counts ? CHECK_WARN : CHECK_NOTE, "plugin-other",
	      "NCCL %s load %s, which is not anynet (net API %s)", releases, group->outcome.file,
	      api_text(group));
	if (anynet) {
		found_why(check, "it is found before %s", anynet);
		found_fix(check,
			  "export NCCL_NET_PLUGIN=anynet, or put %.*s first in LD_LIBRARY_PATH",
			  (int)(strrchr(anynet, '/') - anynet), anynet);
	}
}

static void report_not_found(struct check *check, const struct group *group, const char *releases)
{
	const char *asked = getenv("NCCL_NET_PLUGIN");
	char *tried = text_list_join(&group->outcome.tried, 6);
	char *unreadable = loader_unreadable(&check->loader, &group->outcome.tried);

	if (unreadable) {
		found(check, CHECK_WARN, "plugin-unreadable",
		      "%s exists, but this user cannot read it", unreadable);
		found_why(check, "NCCL %s continue as if it did not exist", releases);
		found_fix(check, "chmod a+r %s, and its directories a+x", unreadable);
		return;
	}
	if (!asked || !*asked) {
		found(check, CHECK_NOTE, "plugin-none",
		      "NCCL %s find no %s and use their own networks; a line in their log that "
		      "says so is harmless",
		      releases, tried);
	} else {
		found(check, group->counts ? CHECK_WARN : CHECK_NOTE, "plugin-not-found",
		      "NCCL_NET_PLUGIN=%s, but NCCL %s find no %s", asked, releases, tried);
		found_why(check, "they continue with their own networks, and a host with the "
				 "plugin cannot connect to one without");
		if (group->first->naming == NAMING_SUFFIX)
			found_fix(
				check,
				"NCCL up to 2.20 accept only the suffix: NCCL_NET_PLUGIN=anynet "
				"for libnccl-net-anynet.so, whose directory is in LD_LIBRARY_PATH");
		else
			found_fix(
				check,
				"add the file's directory to LD_LIBRARY_PATH, or correct the name");
	}
}

static void report_unusable(struct check *check, const struct group *group, const char *releases)
{
	found(check, group->counts ? CHECK_WARN : CHECK_NOTE, "plugin-unusable",
	      "NCCL %s find %s, but cannot use it: %s", releases, group->outcome.file,
	      group->outcome.why ? group->outcome.why
				 : "it exports no ncclNetPlugin symbol for them");
	found_why(check, "they continue with their own networks, and log the reason only with "
			 "NCCL_DEBUG=INFO");
	found_fix(
		check,
		group->outcome.why
			? "install what is missing, or use a plugin that was built for this system"
			: "use a plugin for this release; anynet supports NCCL 2.12 and newer");
}

static void report_group(struct check *check, const struct group *group)
{
	const char *asked = getenv("NCCL_NET_PLUGIN"), *net = getenv("NCCL_NET");
	char *releases = group_text(group);

	switch (group->outcome.state) {
	case PLUGIN_LOADED:
		if (group->outcome.anynet)
			report_anynet(check, group, releases);
		else
			report_other(check, group, releases);
		break;
	case PLUGIN_NOT_FOUND:
		report_not_found(check, group, releases);
		break;
	case PLUGIN_UNUSABLE:
		report_unusable(check, group, releases);
		break;
	case PLUGIN_FILTERED:
		found(check, group->counts ? CHECK_ERROR : CHECK_NOTE, "net-unknown",
		      "NCCL_NET=%s is not a network that NCCL %s could use here", net ? net : "",
		      releases);
		found_why(check,
			  "the plugin %s and NCCL's own networks have other names: jobs fail with "
			  "ncclInvalidUsage",
			  group->outcome.file);
		found_fix(check, "unset NCCL_NET, or set it to IB, Socket or anynet");
		break;
	case PLUGIN_OFF:
		found(check, !group->counts || (asked && *asked) ? CHECK_NOTE : CHECK_WARN,
		      "plugin-off", "NCCL_NET_PLUGIN%s: NCCL %s load no plugin",
		      asked && *asked ? "=none" : " is set and empty", releases);
		if (!asked || !*asked)
			found_fix(check, "unset NCCL_NET_PLUGIN: empty is not unset");
		break;
	case PLUGIN_STATIC:
		found(check, CHECK_WARN, "plugin-static",
		      "NCCL_NET_PLUGIN=%s begins with STATIC_PLUGIN: NCCL %s look for the plugin "
		      "in the program itself",
		      asked ? asked : "", releases);
		found_fix(check, "use another name, or the path of the file");
		break;
	}
}

static bool same_tries(const struct text_list *a, const struct text_list *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++) {
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	}
	return a->count == b->count;
}

static bool same_outcome(const struct plugin_outcome *a, const struct plugin_outcome *b)
{
	if (a->state != b->state || !a->file != !b->file)
		return false;
	if (a->state == PLUGIN_NOT_FOUND)
		return same_tries(&a->tried, &b->tried);
	return !a->file || !strcmp(a->file, b->file);
}

/* True if the verdict depends on whether the release is on this host. */
static bool is_bad(const struct plugin_outcome *outcome)
{
	return outcome->state != PLUGIN_NOT_FOUND
		       ? outcome->state != PLUGIN_LOADED || !outcome->anynet
		       : host_env("NCCL_NET_PLUGIN") != NULL;
}

static void report_loading(struct check *check)
{
	const char *asked = getenv("NCCL_NET_PLUGIN"), *net = getenv("NCCL_NET");
	struct group group = { 0 };

	check->anynet_loads = true;
	for (size_t i = 0; i < release_range_count; i++) {
		const struct release_range *range = &release_ranges[i];
		bool here = counts(check, range);
		struct plugin_outcome outcome;

		if (!here && (!check->all_releases || range->from < OLDEST_SHOWN))
			continue;
		plugin_resolve(range, &check->loader, asked, net, &outcome);
		if (here && (outcome.state != PLUGIN_LOADED || !outcome.anynet))
			check->anynet_loads = false;
		if (group.first && (!same_outcome(&group.outcome, &outcome) ||
				    (group.counts != here && is_bad(&outcome)))) {
			report_group(check, &group);
			group.first = NULL;
		}
		if (!group.first) {
			group.first = range;
			group.api_oldest = outcome.api;
			group.counts = false;
		}
		group.last = range;
		group.counts = group.counts || here;
		group.outcome = outcome;
	}
	if (group.first)
		report_group(check, &group);
}

/* Resolves the settings as NCCL 2.28 and 2.29 do. Some of these releases have bugs of their own,
 * see below. */
static bool resolve_2_28(const struct check *check, const char *asked,
			 struct plugin_outcome *outcome)
{
	plugin_resolve(release_range_of(22803), &check->loader, asked, getenv("NCCL_NET"), outcome);
	return outcome->state == PLUGIN_LOADED;
}

/* If init fails, NCCL 2.28.3 – 2.29.3 call finalize, which their shims have not yet set for
 * versions up to v10. */
static void report_init_crash(struct check *check)
{
	bool known = copies_in_range(&check->copies, 1, INT_MAX);
	struct plugin_outcome outcome;

	if (resolve_2_28(check, getenv("NCCL_NET_PLUGIN"), &outcome) && !outcome.anynet &&
	    outcome.api <= 10 && (!known || copies_in_range(&check->copies, 22803, 22903))) {
		found(check, known ? CHECK_WARN : CHECK_NOTE, "plugin-init-crash",
		      "NCCL 2.28.3 – 2.29.3 crash if %s fails to start", outcome.file);
		found_why(check,
			  "they call a function that the exported symbols up to v10 lack; the "
			  "newest one for them is v%d",
			  outcome.api);
		found_fix(check, "use NCCL 2.29.7 or newer, or a plugin that does not fail without "
				 "hardware");
	}
}

/* True if NCCL, after losing the plugin's name, finds anynet again: by its soname, since it stays
 * loaded, or as the file with the default name. */
static bool is_kept(const struct check *check, const char *asked)
{
	struct plugin_outcome named, usual;
	struct library library;
	bool kept = false;

	if (resolve_2_28(check, asked, &named) && named.anynet) {
		library_read(&check->host, named.file, &library);
		kept = !strcmp(library.soname, "libnccl-net.so");
		kept |= resolve_2_28(check, NULL, &usual) && usual.anynet;
	}
	return kept;
}

static void report_lost_name(struct check *check)
{
	const char *asked = host_env("NCCL_NET_PLUGIN");
	const char *references = host_env("NCCL_NET_PLUGIN_REF_COUNT");
	bool known = copies_in_range(&check->copies, 1, INT_MAX);

	if (!asked || !strcasecmp(asked, "none") || (references && atoi(references) > 0) ||
	    (known && !copies_in_range(&check->copies, 22803, 22907)))
		return;
	if (is_kept(check, asked)) {
		found(check, CHECK_OK, "plugin-name-kept",
		      "NCCL 2.28.3 – 2.29.7 forget NCCL_NET_PLUGIN=%s when the last communicator "
		      "is destroyed, and then find anynet as libnccl-net.so",
		      asked);
		return;
	}
	found(check, known ? CHECK_WARN : CHECK_NOTE, "plugin-name-lost",
	      "NCCL 2.28.3 – 2.29.7 forget NCCL_NET_PLUGIN=%s when the last communicator is "
	      "destroyed",
	      asked);
	found_why(check, "the next communicator gets another network, or none (NVIDIA/nccl issue "
			 "1978, fixed in 2.30.3)");
	found_fix(check, "export NCCL_NET_PLUGIN_REF_COUNT=1, or unset NCCL_NET_PLUGIN and let "
			 "libnccl-net.so be found by its name");
}

static bool is_own_net(const char *name)
{
	return !strcasecmp(name, "IB") || !strcasecmp(name, "Socket");
}

static void report_filter(struct check *check)
{
	const char *net = getenv("NCCL_NET");

	if (!net)
		return;
	if (!*net) {
		found(check, check->anynet_loads ? CHECK_WARN : CHECK_ERROR, "net-empty",
		      "NCCL_NET is set and empty, which is not the same as unset");
		found_why(check,
			  check->anynet_loads
				  ? "NCCL looks for a network with an empty name: anynet accepts "
				    "that name here, but on a host without it jobs fail"
				  : "NCCL looks for a network with an empty name and finds none: "
				    "jobs fail with ncclInvalidUsage");
		found_fix(check, "unset NCCL_NET");
	} else if (!strcasecmp(net, "anynet") && !check->anynet_loads) {
		found(check, CHECK_ERROR, "net-not-loaded",
		      "NCCL_NET=%s, but not every NCCL on this host loads anynet", net);
		found_why(check, "no other network has this name: jobs fail with ncclInvalidUsage");
		found_fix(check, "make libnccl-net.so be found, as above, or unset NCCL_NET");
	} else if (!is_own_net(net) && !check->anynet_loads &&
		   !findings_have(&check->report, "net-unknown") &&
		   !findings_have(&check->report, "plugin-other")) {
		found(check, CHECK_ERROR, "net-unknown",
		      "NCCL_NET=%s is no network of NCCL's own, and no plugin is found", net);
		found_why(check, "no network has this name: jobs end with ncclInvalidUsage");
		found_fix(check, "unset NCCL_NET, or set it to IB or Socket");
	}
}

static bool is_plugin_name(const char *name)
{
	size_t bytes = strlen(name);

	return !strncmp(name, "libnccl-net", 11) && (name[11] == '.' || name[11] == '-') &&
	       bytes > 3 && !strcmp(name + bytes - 3, ".so");
}

/* Returns all plugin files on the library search path, each once, by the name found first. */
static struct text_list plugin_files(const struct check *check)
{
	struct text_list directories = loader_directories(&check->loader);
	struct text_list files = { 0 }, reals = { 0 };

	for (size_t i = 0; i < directories.count; i++) {
		struct text_list entries = host_list(&check->host, directories.items[i]);

		for (size_t j = 0; j < entries.count; j++) {
			char *path = text_format("%s/%s", directories.items[i], entries.items[j]);
			char *real = is_plugin_name(entries.items[j])
					     ? host_resolve(&check->host, path)
					     : NULL;

			if (!real || text_list_has(&reals, real))
				continue;
			text_list_add(&reals, real);
			text_list_add(&files, path);
		}
	}
	return files;
}

static void report_several(struct check *check)
{
	struct text_list files = plugin_files(check);

	if (files.count > 1)
		found(check, CHECK_NOTE, "plugin-several", "plugins on the library search path: %s",
		      text_list_join(&files, 8));
}

void check_plugin(struct check *check)
{
	report_loading(check);
	report_filter(check);
	report_lost_name(check);
	report_init_crash(check);
	report_several(check);
}
