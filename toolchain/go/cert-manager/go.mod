module butler.invalid/toolchain/cert-manager

go 1.26.4

require github.com/cert-manager/cert-manager v1.21.2
