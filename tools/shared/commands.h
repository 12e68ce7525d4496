/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of the `anynet` tool. They return exit statuses (status.h). */
#ifndef SHARED_COMMANDS_H
#define SHARED_COMMANDS_H

/* argv[0] is "anynet NAME", which messages print. */
int cmd_check(int argc, char **argv);
int cmd_cluster(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_pair(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
