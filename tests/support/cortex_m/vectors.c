/* What the core reads first: where the stack begins, and what runs after a reset. */
extern void _start(void);
extern unsigned char __stack[];

void reset(void);

void reset(void)
{
    *(volatile unsigned *)0xE000ED88u |= 0xFu << 20; /* the floating-point unit */
    __asm__ volatile("dsb\n\tisb");
    _start();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[2] = {__stack, (const void *)reset};
