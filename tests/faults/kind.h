/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of processes for jobs, in any scenario: what else happens in the process that loads the plugin. */
#ifndef TESTS_FAULTS_KIND_H
#define TESTS_FAULTS_KIND_H

enum kind {
	KIND_PLAIN,
	KIND_WORKER, /* it has forked workers that stay and never exec, as PyTorch's DataLoader does */
	KIND_STDIO,  /* its standard input, output and error are closed: descriptors 0 to 2 are free */
	KIND_SETENV, /* one of its threads changes the environment all the time */
	KINDS
};

/* By name ("worker"); KINDS = unknown. */
enum kind kind_named(const char *name);

/* Called by the job: before the plugin is opened; when it listens; when it is connected. */
void kind_begin(enum kind kind);
void kind_listening(enum kind kind);
void kind_up(enum kind kind);

#endif
