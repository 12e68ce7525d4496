/* SPDX-License-Identifier: Apache-2.0 */
/* A library that anynet check reads and no program loads: NCCL of some version, a plugin, or the part of PyTorch or
 * CuPy that calls NCCL. */
#ifdef FAKE_VERSION
extern const char fake_version[];
const char fake_version[] = "NCCL version " FAKE_VERSION;
void fake_nccl(void);
void fake_nccl(void)
{
}
#endif

#ifdef FAKE_LIBC
void fake_libc(void);
void fake_libc(void)
{
}
#endif

#ifdef FAKE_PLUGIN
extern void *ncclNetPlugin_v8[19];
void *ncclNetPlugin_v8[19] = { 0 };
#endif

#ifdef FAKE_USER
void fake_nccl(void);
void fake_user(void);
void fake_user(void)
{
	fake_nccl();
}
#endif
