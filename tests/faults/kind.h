/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of processes that jobs are, whatever the scenario: what else goes on in the process the plugin is loaded into. */
#ifndef TESTS_FAULTS_KIND_H
#define TESTS_FAULTS_KIND_H

enum kind {
	KIND_PLAIN,
	KIND_WORKER, /* it has forked workers that live on and never exec, as PyTorch's DataLoader does */
	KIND_STDIO,  /* its standard input, output and error are closed: descriptors 0 to 2 are free */
	KIND_SETENV, /* one of its threads changes the environment all the time */
	KINDS
};

/* By its name ("worker"); KINDS = there is none. */
enum kind kind_named(const char *name);

/* In the job: before the plugin is opened; when its listeners are there; when it is connected. */
void kind_begin(enum kind kind);
void kind_listening(enum kind kind);
void kind_up(enum kind kind);

#endif
