//! Weights in the three element types: the same results as with the widened numbers, to the last bit.

use std::sync::Arc;

use crate::common::*;
use dyweight_nn::*;

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// The value of a 16-bit float, from its definition.
fn f16_value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Random numbers that the element type can hold, as it stores them, after `skipped` other bytes.
fn stored(random: &mut Random, dtype: Dtype, shape: [usize; 2], skipped: usize) -> Weights {
    let mut bytes = vec![0xff; skipped];
    for _ in 0..shape[0] * shape[1] {
        let value = random.normal() * 0.1;
        match dtype {
            Dtype::F32 => bytes.extend(value.to_le_bytes()),
            Dtype::Bf16 => bytes.extend(&value.to_le_bytes()[2..]),
            // Exponents from 2⁻⁸ to 2⁻¹.
            Dtype::F16 => bytes.extend(((random.bits() as u16 & 0x9fff) + 0x1c00).to_le_bytes()),
        }
    }
    Weights::new(dtype, shape, Arc::new(bytes), skipped).unwrap()
}

#[test]
fn every_half_is_widened_exactly() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let owner: Owner = Arc::new(all);
    on_every_isa(|isa| {
        let widened = Weights::new(Dtype::F16, [1, 1 << 16], owner.clone(), 0).unwrap().to_f32();
        for bits in 0..=u16::MAX {
            let (found, exact) = (f64::from(widened[usize::from(bits)]), f16_value(bits));
            assert!(found == exact || (found.is_nan() && exact.is_nan()), "{isa:?}: {bits:#x} is {found}, not {exact}");
            assert_eq!(found.is_sign_negative(), bits >> 15 == 1);
        }
        let widened = Weights::new(Dtype::Bf16, [1, 1 << 16], owner.clone(), 0).unwrap().to_f32();
        assert!(widened.iter().enumerate().all(|(bits, v)| v.to_bits() == (bits as u32) << 16));
    });
}

#[test]
fn linear_layers_of_stored_weights() {
    on_every_isa(|isa| {
        let mut random = Random(400 + isa as u64);
        // Of depths that are cut into blocks, with rows that are copied (1024) and not.
        let sizes = [(1, 5, 3), (7, 64, 200), (130, 33, 65), (3, 1030, 530), (2, 2100, 1100), (101, 1024, 70)];
        for (rows, inputs, outputs) in sizes {
            for dtype in DTYPES {
                let weights = stored(&mut random, dtype, [outputs, inputs], 3);
                let bias = random.vec(outputs, 1.0);
                let layer = Linear::from_weights(weights.clone(), Some(&bias)).unwrap();
                let packed = Linear::new(inputs, outputs, &weights.to_f32(), Some(&bias)).unwrap();
                assert_eq!((layer.inputs(), layer.outputs(), layer.weight_bytes()), (inputs, outputs, 0));
                assert_eq!((packed.inputs(), packed.outputs()), (inputs, outputs));
                let (x, gy) = (random.act(1, 1, rows, inputs), random.act(1, 1, rows, outputs));
                let what = format!("{isa:?} {dtype:?} {rows}x{inputs}x{outputs}");
                assert_bits(&what, layer.forward(&x).data(), packed.forward(&x).data());
                assert_bits(&what, layer.backward(&gy).data(), packed.backward(&gy).data());
                let (y, gx) = (layer.forward_residual(&x, &gy, 0.5), layer.backward_residual(&gy, Some(&x), 0.5));
                assert_bits(&what, y.data(), packed.forward_residual(&x, &gy, 0.5).data());
                assert_bits(&what, gx.data(), packed.backward_residual(&gy, Some(&x), 0.5).data());
                let both = layer.packed();
                assert!(both.weight_bytes() >= 4 * inputs * outputs);
                assert_bits(&what, both.forward(&x).data(), packed.forward(&x).data());
                assert_bits(&what, both.forward_residual(&x, &gy, 0.5).data(), y.data());
                assert_bits(&what, both.backward(&gy).data(), packed.backward(&gy).data());
            }
        }
    });
}

/// Deep sums against f64: they are cut into blocks.
#[test]
fn deep_sums() {
    on_every_isa(|_| {
        let mut random = Random(410);
        for inputs in [1700, 1536] {
            deep_sum(&mut random, inputs, 21);
        }
    });
}

fn deep_sum(random: &mut Random, inputs: usize, outputs: usize) {
    let weight = random.vec(inputs * outputs, 0.03);
    let layer = Linear::new(inputs, outputs, &weight, None).unwrap();
    let x = random.act(2, 1, 50, inputs);
    let mut exact = Exact::zeros(Shape::tokens(2, 50, outputs));
    for (i, y) in exact.data.iter_mut().enumerate() {
        let (x, w) = (&x.data()[i / outputs * inputs..][..inputs], &weight[i % outputs * inputs..][..inputs]);
        *y = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
    }
    assert_close("deep sum", &layer.forward(&x), &exact, 3e-6);
    let gy = random.act(2, 1, 50, outputs);
    let scale = (dot(&gy, &gy) * dot(&x, &x)).sqrt();
    assert_near("its gradient", dot(&layer.backward(&gy), &x), exact.dot(&gy), scale, 1e-6);
}

#[test]
fn convolutions_of_stored_weights() {
    on_every_isa(|isa| {
        let mut random = Random(420 + isa as u64);
        for algo in [ConvAlgo::Winograd4, ConvAlgo::Winograd2, ConvAlgo::Direct] {
            for (kernel, stride) in [(3, 1), (1, 1), (3, 2)] {
                for dtype in DTYPES {
                    // Of many channels, the panels for a few tiles are made in parts.
                    let (inputs, outputs) = if dtype == Dtype::Bf16 { (70, 150) } else { (19, 37) };
                    let spec = ConvSpec::same(inputs, outputs, kernel, algo).with_stride(stride);
                    let weights = stored(&mut random, dtype, [outputs, inputs * kernel * kernel], 1);
                    let bias = random.vec(outputs, 1.0);
                    let conv = Conv2d::from_weights(spec, weights.clone(), Some(&bias)).unwrap();
                    let full = Conv2d::new(spec, &weights.to_f32(), Some(&bias)).unwrap();
                    let x = random.act(2, 9, 7, inputs);
                    let y = conv.forward(&x);
                    assert_bits("forward", y.data(), full.forward(&x).data());
                    let gy = random.like(&y);
                    assert_bits("backward", conv.backward(&gy, x.size()).data(), full.backward(&gy, x.size()).data());
                    assert_bits("relu", conv.forward_relu(&x).data(), full.forward_relu(&x).data());
                    let fused = conv.forward_residual(&x, &gy, 0.5);
                    assert_bits("residual", fused.data(), full.forward_residual(&x, &gy, 0.5).data());
                    assert!(conv.weight_bytes() == 0 && full.weight_bytes() > 0, "stored weights take no memory");
                }
            }
        }
    });
}

#[test]
fn embeddings_of_stored_tables() {
    on_every_isa(|_| {
        let mut random = Random(425);
        for dtype in DTYPES {
            let table = stored(&mut random, dtype, [9, 21], 5);
            let y = Embedding::from_weights(table.clone()).unwrap().forward(1, &[8, 0, 3]).unwrap();
            let wanted = [8, 0, 3].map(|row| table.row_range(row..row + 1).unwrap().to_f32()).concat();
            assert_bits("embedding", y.data(), &wanted);
        }
    });
}

#[test]
fn rows_are_cut_out_without_a_copy() {
    let mut random = Random(430);
    for dtype in DTYPES {
        let weights = stored(&mut random, dtype, [6, 5], 7);
        let part = weights.row_range(2..5).unwrap();
        assert_eq!((part.rows(), part.columns(), part.dtype()), (3, 5, dtype));
        assert_eq!(part.to_f32(), weights.to_f32()[10..25]);
        assert_eq!(part.row_range(1..3).unwrap().to_f32(), weights.to_f32()[15..25]);
        assert!(weights.row_range(3..7).is_err() && part.row_range(0..4).is_err());
    }
}

#[test]
fn weights_that_do_not_fit_are_errors() {
    let owner: Owner = Arc::new(vec![0u8; 40]);
    let error = |dtype, shape, start| Weights::new(dtype, shape, owner.clone(), start).unwrap_err().to_string();
    assert_eq!(error(Dtype::F32, [3, 4], 0), "stored weight has 10 entries, needs 12");
    assert_eq!(error(Dtype::F16, [4, 5], 1), "stored weight has 19 entries, needs 20");
    assert_eq!(error(Dtype::F16, [1, 1], 99), "stored weight has 0 entries, needs 1");
    assert!(Weights::new(Dtype::Bf16, [usize::MAX, 2], owner.clone(), 0).is_err());
    let weights = Weights::new(Dtype::F16, [4, 5], owner, 0).unwrap();
    assert!(Linear::from_weights(weights.clone(), Some(&[0.0; 3])).is_err());
    assert!(Conv2d::from_weights(ConvSpec::same(5, 3, 1, ConvAlgo::Direct), weights.clone(), None).is_err());
    assert!(Weights::from_f32([2, 2], &[0.0; 3]).is_err());
    assert_eq!(Weights::from_f32([2, 1], &[1.5, -2.0]).unwrap().to_f32(), [1.5, -2.0]);
}
