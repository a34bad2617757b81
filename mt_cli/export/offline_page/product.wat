;; The product of 16-bit activations and 8-bit weights. `product` of model.js computes the same, bit for bit.
(module
  (import "mt" "memory" (memory 1))
  ;; x (n_x, n_columns) i16 times weight (n_rows, n_columns) i8, transposed, times x_scales (n_x) f64 and scales (n_rows) f32,
  ;; plus bias (n_rows) f32 -> out (n_x, n_rows) f64. All are addresses; n_columns is a multiple of 8.
  (func (export "product")
    (param $weight i32) (param $scales i32) (param $bias i32) (param $x i32) (param $x_scales i32) (param $out i32)
    (param $n_rows i32) (param $n_columns i32) (param $n_x i32)
    (local $row i32) (local $i i32) (local $w i32) (local $a i32) (local $end i32) (local $sum v128)
    (loop $rows
      (local.set $i (i32.const 0))
      (local.set $a (local.get $x))
      (local.set $end (i32.add (local.get $weight) (local.get $n_columns)))
      (loop $xs
        (local.set $w (local.get $weight))
        (local.set $sum (v128.const i32x4 0 0 0 0))
        (loop $columns
          (local.set $sum (i32x4.add (local.get $sum)
            (i32x4.dot_i16x8_s (v128.load (local.get $a)) (v128.load8x8_s (local.get $w)))))
          (local.set $w (i32.add (local.get $w) (i32.const 8)))
          (local.set $a (i32.add (local.get $a) (i32.const 16)))
          (br_if $columns (i32.lt_u (local.get $w) (local.get $end))))
        (f64.store
          (i32.add (local.get $out)
            (i32.shl (i32.add (i32.mul (local.get $i) (local.get $n_rows)) (local.get $row)) (i32.const 3)))
          (f64.add
            (f64.mul
              (f64.mul
                (f64.convert_i32_s (i32.add
                  (i32.add (i32x4.extract_lane 0 (local.get $sum)) (i32x4.extract_lane 1 (local.get $sum)))
                  (i32.add (i32x4.extract_lane 2 (local.get $sum)) (i32x4.extract_lane 3 (local.get $sum)))))
                (f64.load (i32.add (local.get $x_scales) (i32.shl (local.get $i) (i32.const 3)))))
              (f64.promote_f32 (f32.load (local.get $scales))))
            (f64.promote_f32 (f32.load (local.get $bias)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $xs (i32.lt_u (local.get $i) (local.get $n_x))))
      (local.set $weight (local.get $end))
      (local.set $scales (i32.add (local.get $scales) (i32.const 4)))
      (local.set $bias (i32.add (local.get $bias) (i32.const 4)))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $rows (i32.lt_u (local.get $row) (local.get $n_rows))))))
