/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the stand-ins for libc functions (calls_*.c). */
#ifndef TESTS_SIM_CALLS_H
#define TESTS_SIM_CALLS_H

#include "sim/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* The C library's own function, for the simulator itself. */
#define REAL(name, result, ...)                                \
	static result (*real)(__VA_ARGS__);                    \
	if (!real) {                                           \
		void *address_ = dlsym(RTLD_NEXT, #name);      \
		memcpy((void *)&real, &address_, sizeof(real)); \
	}

/* -errno in the form in which libc returns it. */
#define RETURN(type, expression)                  \
	do {                                      \
		int64_t value_ = (expression);    \
		if (value_ < 0) {                 \
			errno = (int)-value_;     \
			return (type)-1;          \
		}                                 \
		return (type)value_;              \
	} while (0)

#endif
