/* SPDX-License-Identifier: Apache-2.0 */
/* The start of an executable on any glibc: since 2.34 the C library calls an executable's constructors by itself, before
 * that the executable handed it a function that does (the argument init). --wrap leads here (floor.cmake). */

typedef int main_fn(int, char **, char **);
typedef void init_fn(int, char **, char **);

extern init_fn *const __init_array_start[] __attribute__((visibility("hidden")));
extern init_fn *const __init_array_end[] __attribute__((visibility("hidden")));

int __real___libc_start_main(main_fn *main, int argc, char **argv, init_fn *init,
			     void (*fini)(void), void (*loader_fini)(void), void *stack_end);
int __wrap___libc_start_main(main_fn *main, int argc, char **argv, init_fn *init,
			     void (*fini)(void), void (*loader_fini)(void), void *stack_end);

static void run_constructors(int argc, char **argv, char **envp)
{
	for (init_fn *const *init = __init_array_start; init < __init_array_end; init++)
		(*init)(argc, argv, envp);
}

int __wrap___libc_start_main(main_fn *main, int argc, char **argv, init_fn *init,
			     void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	(void)init;
	return __real___libc_start_main(main, argc, argv, run_constructors, fini, loader_fini,
					stack_end);
}
