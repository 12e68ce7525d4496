/* SPDX-License-Identifier: Apache-2.0 */
/* Fused devices over a message layer that only records its calls. In a child process: fused devices are never removed. */
#ifndef TESTS_ABI_FUSING_H
#define TESTS_ABI_FUSING_H

#include <plugin/abi.h>

#include "fakes/stubs/fake_comm.h"

/* An init call of v12 with these verbs ports; returns the context. */
void *begin_with(const char *ports, anynet_nccl_logger logger);
void *begin(const char *ports);

int device_count(void);
struct anynet_net_props_v12 props_of(int dev);

/* makeVDevice by the table of this version. */
int make_by(int abi, int *dev, int count, const int *devs);

/* By the widest table; returns the new device. */
int make(int count, const int *devs);

#endif
